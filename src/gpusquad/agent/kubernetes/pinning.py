"""Chooses the device slots of a container: on the cards that its pod is pinned to, or else on cards that no pod is
pinned to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpusquad.agent.kubernetes.pods import Container, Pod
from gpusquad.agent.kubernetes.slots import card_of, cards_of, in_order
from gpusquad.kube.names import CARDS


class AllocationRefused(Exception):
    """The container cannot have its devices. The text is for the owner of the pod."""


@dataclass(frozen=True, slots=True)
class CardOccupancy:
    """Use of a card by other pods."""

    is_pinned: bool = False
    """A pod that is pinned to it is bound but not admitted yet."""
    is_held: bool = False
    """A pod that is pinned to it has it."""
    used: int = 0
    """Slots in use, by any pod."""


@dataclass(frozen=True, slots=True)
class PinnedCards:
    """``count`` of these cards. If there are more cards, any of them."""

    cards: tuple[str, ...]
    count: int

    def matches(self, slots: Collection[str]) -> bool:
        return len(slots) == self.count and cards_of(slots) <= Counter(self.cards)

    def __str__(self) -> str:
        return ", ".join(self.cards)


def pinned_cards_of(pod: Pod, container: Container, cards: Collection[str]) -> PinnedCards | None:
    """The cards that a container is pinned to. None: the scheduler of the pod chose no cards."""
    if pod.pin_error:
        raise AllocationRefused(f"{pod.key}: {pod.pin_error}")
    if pod.pin is None:
        return None
    uses_later_pin = container.is_init and container.name not in pod.pin
    pinned = pod.pin.get(_next_regular_container(pod, container) if uses_later_pin else container.name)
    if pinned is None:
        raise AllocationRefused(f"{pod.key}: the annotation {CARDS} names no cards for container {container.name!r}")
    if len(pinned) < container.count or (len(pinned) > container.count and not uses_later_pin):
        raise AllocationRefused(
            f"{pod.key}: container {container.name!r} requests {container.count} cards, "
            f"but the annotation {CARDS} names {len(pinned)}"
        )
    if unknown := [card for card in pinned if card not in cards]:
        raise AllocationRefused(
            f"{pod.key}: this node has no card {', '.join(map(repr, unknown))}, named by the annotation {CARDS}"
        )
    return PinnedCards(pinned, container.count)


def _next_regular_container(pod: Pod, container: Container) -> str:
    """Name of the regular container whose cards an init container uses, because the kubelet reuses the devices
    of an init container for later containers. Without a later one, the container's own name."""
    later = pod.containers[pod.containers.index(container) :]
    return next((other.name for other in later if not other.is_init), container.name)


def slots_on(pin: PinnedCards, available: Iterable[str], must: Iterable[str]) -> list[str]:
    """Free slots of the pinned cards, including those that must be used."""
    chosen, wanted = in_order(must), Counter(pin.cards)
    wanted.subtract(cards_of(chosen))
    if unknown := sorted(card for card, count in wanted.items() if count < 0):
        raise AllocationRefused(
            f"the kubelet requires card {', '.join(unknown)}, which this container is not pinned to"
        )
    free: dict[str, list[str]] = {}
    for slot in in_order(set(available) - set(chosen)):
        free.setdefault(card_of(slot), []).append(slot)
    for card in pin.cards:
        if len(chosen) < pin.count and wanted[card] > 0 and free.get(card):
            chosen.append(free[card].pop(0))
            wanted[card] -= 1
    if len(chosen) < pin.count:
        full = sorted(card for card, count in wanted.items() if count > 0)
        raise AllocationRefused(f"card {', '.join(full)} has no free slot, or is unhealthy")
    return chosen


def slots_anywhere(
    count: int, available: Iterable[str], must: Iterable[str], uses: Mapping[str, CardOccupancy], cards: Sequence[str]
) -> list[str]:
    """For a pod without a pin: unused cards first, and cards that other pods are pinned to last."""
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
    return (use.is_pinned, mine, use.is_held, use.used, place)


def _place(card: str, cards: Sequence[str]) -> int:
    return cards.index(card) if card in cards else len(cards)


def card_uses(pods: Iterable[Pod], slots_by_pod: Mapping[str, Iterable[str]]) -> dict[str, CardOccupancy]:
    """By card. ``slots_by_pod``: allocations of the kubelet, by namespace/name."""
    pinned, held, used = set(), set(), Counter[str]()
    for slots in slots_by_pod.values():
        used.update(cards_of(slots))
    for pod in pods:
        if not pod.has_ended:
            (held if slots_by_pod.get(pod.key) else pinned).update(pod.pinned_cards)
    return {card: CardOccupancy(card in pinned, card in held, used[card]) for card in pinned | held | set(used)}
