"""From the API server's nodes to the scheduler's: what they have, which cards, and what others hold of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping

from gpusquad.engines.kubernetes.nodes.devices import PLENTY
from gpusquad.engines.kubernetes.parse.container_requests import asked_by, effective
from gpusquad.engines.kubernetes.parse.pins import pin_of
from gpusquad.kube.errors import MalformedField
from gpusquad.kube.names import AGENT, CARDS, GPU, GPU_MEMORY_LABEL, GPU_MODEL_LABEL, RACK, UNPINNED
from gpusquad.kube.objects import Object, annotations_of, key_of, labels_of, name_of
from gpusquad.kube.quantity import milli_from_nanos, parse_quantity, units_from_nanos
from gpusquad.model.cluster import Card, ForeignUsage, Node

PODS = "pods"
_NOT_EXTRA = frozenset({"cpu", "memory"})
_MOST_CARDS = 4096
_MIB = 1 << 20
_log = logging.getLogger(__name__)


def node_of(item: Object) -> Node:
    """What a node has to give away. Cards by the agent's word; without an agent so many of one kind."""
    given = (item.get("status") or {}).get("allocatable") or {}
    name = name_of(item)
    amounts = {resource: parse_quantity(text, f"{name}.allocatable.{resource}") for resource, text in given.items()}
    extras = {resource: units_from_nanos(amount) for resource, amount in amounts.items() if resource not in _NOT_EXTRA}
    if has_agent(item):
        extras[AGENT] = PLENTY
    return Node(
        name, _cards(item, units_from_nanos(amounts.get(GPU, 0))), milli_from_nanos(amounts.get("cpu", 0)),
        units_from_nanos(amounts.get("memory", 0)), labels_of(item).get(RACK, ""),
        tuple(sorted((resource, amount) for resource, amount in extras.items() if amount > 0)),
    )  # fmt: skip


def broken_cards(item: Object) -> frozenset[str]:
    """Cards that the agent says must not be used now."""
    return frozenset(card["id"] for card in _published(item) or () if not card.get("ok", True))


def has_agent(item: Object) -> bool:
    """Whether somebody on the node sees to it that a container gets the cards its pod was bound with."""
    return CARDS in annotations_of(item)


def foreign_on(node: Node, item: Object, pods: Iterable[Object], ours: frozenset[str]) -> ForeignUsage:
    """What these pods of others hold. Whose cards nobody knows has the last ones that are not ours."""
    cpu = memory = 0
    extras: dict[str, int] = {}
    cards: list[str] = []
    unknown = 0
    said = _unpinned(item)
    for pod in pods:
        taken = _taken_by(pod)
        cpu += milli_from_nanos(taken.pop("cpu", 0))
        memory += units_from_nanos(taken.pop("memory", 0))
        gpus = units_from_nanos(taken.get(GPU, 0))
        known = said.get(key_of(pod)) or _pinned(pod)[:gpus]
        cards += known
        unknown += max(0, gpus - len(known))
        for resource, amount in taken.items():
            extras[resource] = extras.get(resource, 0) + units_from_nanos(amount)
        extras[PODS] = extras.get(PODS, 0) + 1
    free = [card.id for card in reversed(node.cards) if card.id not in ours and card.id not in cards]
    return ForeignUsage(
        cpu, memory, tuple(sorted((r, n) for r, n in extras.items() if n)), tuple(sorted({*cards, *free[:unknown]}))
    )


def _pinned(pod: Object) -> tuple[str, ...]:
    """By its own word, which anybody may write: it never counts for more cards than the pod asks for."""
    try:
        pin = pin_of(pod) or {}
    except MalformedField:
        return ()
    return tuple(dict.fromkeys(card for cards in pin.values() for card in cards))


def _taken_by(pod: Object) -> dict[str, int]:
    try:
        return dict(effective(pod, asked_by(pod)))
    except MalformedField as error:  # the API server let it pass, so it is no quantity that matters
        _log.warning("what %s takes cannot be read: %s", key_of(pod), error)
        return {}


def _cards(item: Object, count: int) -> tuple[Card, ...]:
    published = _published(item)
    if published is not None:
        return tuple(_card(card) for card in published)
    name, labels = name_of(item), labels_of(item)
    model = labels.get(GPU_MODEL_LABEL, "").replace("-", " ") or "generic"
    memory = labels.get(GPU_MEMORY_LABEL, "")
    known = {"memory_bytes": int(memory) * _MIB} if memory.isdecimal() and len(memory) < 10 else {}
    return tuple(Card(f"{name}/{index}", model, **known) for index in range(min(count, _MOST_CARDS)))


def _card(card: Mapping[str, object]) -> Card:
    return Card(str(card["id"]), str(card.get("model") or "generic"), *(
        int(str(card.get(name) or 0)) for name in ("memory_bytes", "sms", "domain")
    ))  # fmt: skip


def _published(item: Object) -> list[dict] | None:
    """None: no agent there, or not one that can be understood."""
    text = annotations_of(item).get(CARDS)
    if text is None:
        return None
    try:
        cards = json.loads(text)
        for card in cards:
            _card(card)
        return cards[:_MOST_CARDS]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        _log.warning("the cards of node %s cannot be read: %.200s", name_of(item), text)
        return []


def _unpinned(item: Object) -> Mapping[str, tuple[str, ...]]:
    try:
        said = json.loads(annotations_of(item).get(UNPINNED, "{}"))
        return {str(pod): tuple(map(str, cards)) for pod, cards in said.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}
