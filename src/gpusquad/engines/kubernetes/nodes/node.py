"""Converts API nodes: their resources and cards, and the usage of foreign pods."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping

from gpusquad.engines.kubernetes.nodes.devices import PLENTY
from gpusquad.engines.kubernetes.parse.container_requests import container_requests, pod_amounts
from gpusquad.engines.kubernetes.parse.pins import pin_of
from gpusquad.kube.errors import MalformedField
from gpusquad.kube.names import AGENT, CARDS, GPU, GPU_MEMORY_LABEL, GPU_MODEL_LABEL, RACK, UNPINNED
from gpusquad.kube.objects import Object, annotations_of, key_of, labels_of, name_of
from gpusquad.kube.quantity import milli_from_nanos, parse_quantity, units_from_nanos
from gpusquad.model.card_faults import FaultClass
from gpusquad.model.cluster import Card, ForeignUsage, Node

PODS = "pods"
_NOT_EXTRA = frozenset({"cpu", "memory"})
_MAX_CARDS = 4096
_MAX_CAUSE = 200
_MIB = 1 << 20
_log = logging.getLogger(__name__)


def node_of(item: Object) -> Node:
    """Capacity of a node. The agent reports its cards; without an agent they are counted and of one model."""
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


def broken_cards(item: Object) -> dict[str, tuple[str, FaultClass]]:
    """Cards that the agent reports as unusable, with the cause and what it says about the card. Older agents report
    neither."""
    return {card["id"]: _fault_of(card) for card in _published(item) or () if not card.get("ok", True)}


def _fault_of(card: Object) -> tuple[str, FaultClass]:
    text = str(card.get("fault") or "its node's agent reports a fault")[:_MAX_CAUSE]
    cause = "".join(sign if sign.isprintable() else " " for sign in text)
    return cause, "doubtful" if card.get("fault_class") == "doubtful" else "card"


def has_agent(item: Object) -> bool:
    """The node's agent gives each container the cards that its pod was bound with."""
    return CARDS in annotations_of(item)


def annotations_version(item: Object) -> int | None:
    """Version of the pod annotations that the node's agent reads. None: no agent, or none with cards."""
    versions = (card.get("annotations") for card in _published(item) or ())
    return min((version if isinstance(version, int) else 1 for version in versions), default=None)


def foreign_on(node: Node, item: Object, pods: Iterable[Object], ours: frozenset[str]) -> ForeignUsage:
    """Usage of foreign pods. Pods with unknown cards are counted on the last cards that gpusquad does not use."""
    cpu = memory = 0
    extras: dict[str, int] = {}
    cards: list[str] = []
    unknown = 0
    reported = _unpinned(item)
    for pod in pods:
        taken = _taken_by(pod)
        cpu += milli_from_nanos(taken.pop("cpu", 0))
        memory += units_from_nanos(taken.pop("memory", 0))
        gpus = units_from_nanos(taken.get(GPU, 0))
        known = reported.get(key_of(pod)) or _pinned(pod)[:gpus]
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
    """By its annotation. Any user may write it, so it never counts for more cards than the pod requests."""
    try:
        pin = pin_of(pod) or {}
    except MalformedField:
        return ()
    return tuple(dict.fromkeys(card for cards in pin.values() for card in cards))


def _taken_by(pod: Object) -> dict[str, int]:
    try:
        return dict(pod_amounts(pod, container_requests(pod)))
    except MalformedField as error:  # the API server accepted it, so it is no quantity that matters
        _log.warning("cannot read the requests of %s: %s", key_of(pod), error)
        return {}


def _cards(item: Object, count: int) -> tuple[Card, ...]:
    published = _published(item)
    if published is not None:
        return tuple(_card(card) for card in published)
    name, labels = name_of(item), labels_of(item)
    model = labels.get(GPU_MODEL_LABEL, "").replace("-", " ") or "generic"
    memory = labels.get(GPU_MEMORY_LABEL, "")
    known = {"memory_bytes": int(memory) * _MIB} if memory.isdecimal() and len(memory) < 10 else {}
    return tuple(Card(f"{name}/{index}", model, **known) for index in range(min(count, _MAX_CARDS)))


def _card(card: Mapping[str, object]) -> Card:
    return Card(str(card["id"]), str(card.get("model") or "generic"), *(
        int(str(card.get(name) or 0)) for name in ("memory_bytes", "sms", "domain")
    ))  # fmt: skip


def _published(item: Object) -> list[dict] | None:
    """None: no agent. Empty: its report cannot be parsed."""
    text = annotations_of(item).get(CARDS)
    if text is None:
        return None
    try:
        cards = json.loads(text)
        for card in cards:
            _card(card)
        return cards[:_MAX_CARDS]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        _log.warning("cannot read the cards of node %s: %.200s", name_of(item), text)
        return []


def _unpinned(item: Object) -> Mapping[str, tuple[str, ...]]:
    try:
        reported = json.loads(annotations_of(item).get(UNPINNED, "{}"))
        return {str(pod): tuple(map(str, cards)) for pod, cards in reported.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}
