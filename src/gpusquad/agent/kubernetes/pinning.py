"""Which slots a container gets: on the cards that it was promised, or else on cards promised to nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpusquad.agent.kubernetes.pods import Container, Pod
from gpusquad.agent.kubernetes.slots import card_of, cards_of, in_order
from gpusquad.kube.names import CARDS


class AllocationRefused(Exception):
    """The container cannot have its devices; the text is for the owner of the pod."""


@dataclass(frozen=True, slots=True)
class CardOccupancy:
    """How others stand to a card."""

    is_promised: bool = False
    """A pod that is bound but not yet admitted will need it."""
    is_held: bool = False
    """A pod that was promised it runs on it."""
    used: int = 0
    """Slots that are taken, by anybody."""


@dataclass(frozen=True, slots=True)
class PinnedCards:
    """``count`` of these cards. More cards than that: any of them will do."""

    cards: tuple[str, ...]
    count: int

    def is_kept_by(self, slots: Collection[str]) -> bool:
        return len(slots) == self.count and cards_of(slots) <= Counter(self.cards)

    def __str__(self) -> str:
        return ", ".join(self.cards)


def promise_to(pod: Pod, container: Container, cards: Collection[str]) -> PinnedCards | None:
    """What a container was promised. None: whoever placed the pod chose no cards."""
    if pod.pin_error:
        raise AllocationRefused(f"{pod.key}: {pod.pin_error}")
    if pod.pin is None:
        return None
    is_heir = container.is_init and container.name not in pod.pin
    promised = pod.pin.get(_heir(pod, container) if is_heir else container.name)
    if promised is None:
        raise AllocationRefused(f"{pod.key}: the annotation {CARDS} names no cards for container {container.name!r}")
    if len(promised) < container.count or (len(promised) > container.count and not is_heir):
        raise AllocationRefused(
            f"{pod.key}: container {container.name!r} asks for {container.count} cards, "
            f"but the annotation {CARDS} names {len(promised)}"
        )
    if strange := [card for card in promised if card not in cards]:
        raise AllocationRefused(
            f"{pod.key}: this node has no card {', '.join(map(repr, strange))}, named by the annotation {CARDS}"
        )
    return PinnedCards(promised, container.count)


def _heir(pod: Pod, container: Container) -> str:
    """One that only initialises uses the cards of the next that stays: the kubelet passes its devices on to that."""
    later = pod.containers[pod.containers.index(container) :]
    return next((other.name for other in later if not other.is_init), container.name)


def slots_on(promise: PinnedCards, available: Iterable[str], must: Iterable[str]) -> list[str]:
    """Free slots of these cards, those that must be used among them."""
    chosen, wanted = in_order(must), Counter(promise.cards)
    wanted.subtract(cards_of(chosen))
    if strange := sorted(card for card, count in wanted.items() if count < 0):
        raise AllocationRefused(
            f"the kubelet insists on card {', '.join(strange)}, which was not promised to this container"
        )
    free: dict[str, list[str]] = {}
    for slot in in_order(set(available) - set(chosen)):
        free.setdefault(card_of(slot), []).append(slot)
    for card in promise.cards:
        if len(chosen) < promise.count and wanted[card] > 0 and free.get(card):
            chosen.append(free[card].pop(0))
            wanted[card] -= 1
    if len(chosen) < promise.count:
        full = sorted(card for card, count in wanted.items() if count > 0)
        raise AllocationRefused(f"card {', '.join(full)} has no free slot, or is not healthy")
    return chosen


def slots_anywhere(
    count: int, available: Iterable[str], must: Iterable[str], uses: Mapping[str, CardOccupancy], cards: Sequence[str]
) -> list[str]:
    """For a pod without a promise: cards of its own while there are any, and last of all those promised to others."""
    chosen = in_order(must)[:count]
    taken = cards_of(chosen)
    free: dict[str, list[str]] = {}
    for slot in in_order(set(available) - set(chosen)):
        free.setdefault(card_of(slot), []).append(slot)
    while len(chosen) < count and free:
        card = min(free, key=lambda card: _cost(taken[card], uses.get(card, CardOccupancy()), _place(card, cards)))
        chosen.append(free[card].pop(0))
        taken[card] += 1
        if not free[card]:
            del free[card]
    if len(chosen) < count:
        raise AllocationRefused(f"only {len(chosen)} of {count} devices are free")
    return chosen


def _cost(mine: int, use: CardOccupancy, place: int) -> tuple[bool, int, bool, int, int]:
    return (use.is_promised, mine, use.is_held, use.used, place)


def _place(card: str, cards: Sequence[str]) -> int:
    return cards.index(card) if card in cards else len(cards)


def card_uses(pods: Iterable[Pod], slots_by_pod: Mapping[str, Iterable[str]]) -> dict[str, CardOccupancy]:
    """By card. ``slots_by_pod``: what the kubelet has given, by namespace/name."""
    promised, held, used = set(), set(), Counter[str]()
    for slots in slots_by_pod.values():
        used.update(cards_of(slots))
    for pod in pods:
        if not pod.has_ended:
            (held if slots_by_pod.get(pod.key) else promised).update(pod.pinned_cards)
    return {card: CardOccupancy(card in promised, card in held, used[card]) for card in promised | held | set(used)}
