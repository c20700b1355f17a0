"""Conversion between clusters with maintenance windows and the data that users write, with checks.

::

    [[nodes]]
    id = "h100"          # with a count: h100-0, h100-1, …
    count = 4
    gpus = 8
    gpu_model = "H100"
    gpu_memory = "80GiB"
    domain_size = 4      # cards that share NVLink

    [[windows]]
    id = "firmware"
    nodes = ["h100-3"]
    start = "8h"
    end = "10h"
"""

from __future__ import annotations

from collections.abc import Sequence

from gpusquad.model.cluster import GIB, Card, Cluster, MaintenanceWindow, Node
from gpusquad.model.errors import Invalid
from gpusquad.model.fields import CPU_MILLI, Fields, checked_text, cores, seconds

MAX_NODES = 1_000_000
MAX_CARDS = 10_000_000
MAX_CARDS_A_NODE = 4096
MAX_WINDOWS = 10_000
MAX_SMS = 100_000

_EQUAL_CARDS = ("gpus", "gpu_model", "gpu_memory", "sms", "domain_size")
_NODE = ("id", "count", "cpu", "memory", "rack", "extras", *_EQUAL_CARDS, "cards")
_CARD = ("id", "model", "memory", "sms", "domain")
_GENERIC = Card("generic")
# Default CPU and memory of a node, ample as in a NODESxGPUS grid.
_CORES_A_CARD = 16
_MEMORY_A_CARD = 256 * GIB


def cluster_from_dict(data: dict, where: str = "") -> tuple[Cluster, tuple[MaintenanceWindow, ...]]:
    """A checked cluster and its maintenance windows."""
    fields = Fields(data, where, ("version", "nodes", "windows"))
    fields.version()
    if "nodes" not in fields:
        raise Invalid(fields.at("nodes"), "is missing", "list at least one node")
    nodes: list[Node] = []
    cards = 0
    for index, row in enumerate(fields.rows("nodes", MAX_NODES)):
        more = _nodes(Fields(row, f"{fields.at('nodes')}[{index}]", _NODE))
        nodes += more
        cards += len(more) * len(more[0].cards)
        if len(nodes) > MAX_NODES or cards > MAX_CARDS:
            raise Invalid(fields.at("nodes"), f"more than {MAX_NODES} nodes or {MAX_CARDS} cards")
    try:
        cluster = Cluster(tuple(nodes))
    except Invalid as error:
        raise Invalid(fields.at(error.field), error.problem, "give each its own id") from None
    return cluster, _windows(fields, {node.id for node in nodes})


def cluster_to_dict(cluster: Cluster, windows: Sequence[MaintenanceWindow] = ()) -> dict:
    """Plain data that ``cluster_from_dict`` reads back to an equal cluster. Lists every node and card."""
    result: dict = {"nodes": [_node_to_dict(node) for node in cluster.nodes]}
    if windows:
        result["windows"] = [_window_to_dict(window) for window in windows]
    return result


def _nodes(fields: Fields) -> list[Node]:
    """One node, or ``count`` equal ones with numbered ids."""
    name = fields.text("id", required=True)
    count = fields.optional_whole("count", low=1, high=MAX_NODES)
    if count is not None and "cards" in fields:
        raise Invalid(fields.at("cards"), "cannot be combined with count", "named cards belong to one node: omit count")
    ids = [name] if count is None else [f"{name}-{index}" for index in range(count)]
    size = _cards_a_node(fields)
    if size * len(ids) > MAX_CARDS:
        raise Invalid(fields.at("gpus"), f"{size * len(ids)} cards", f"keep it to {MAX_CARDS}")
    ample = max(size, 1)
    cpu_milli = fields.cpu_milli("cpu", ample * _CORES_A_CARD * CPU_MILLI)
    memory_bytes = fields.bytes("memory", ample * _MEMORY_A_CARD)
    rack = fields.text("rack")
    extras = fields.amounts("extras")
    return [Node(node, _cards(fields, node, size), cpu_milli, memory_bytes, rack, extras) for node in ids]


def _cards_a_node(fields: Fields) -> int:
    if fields.raw("cards") is None:
        return fields.whole("gpus", 0, high=MAX_CARDS_A_NODE)
    both = [name for name in _EQUAL_CARDS if name in fields]
    if both:
        raise Invalid(fields.at(both[0]), "cannot be combined with cards", "describe the cards in one of the two ways")
    cards = fields.raw("cards")
    return 0 if cards == [] else len(fields.rows("cards", MAX_CARDS_A_NODE))


def _cards(fields: Fields, node: str, size: int) -> tuple[Card, ...]:
    cards = fields.raw("cards")
    if isinstance(cards, (list, tuple)):
        return tuple(_card(row, f"{fields.at('cards')}[{index}]", node, index) for index, row in enumerate(cards))
    model = fields.text("gpu_model", _GENERIC.model)
    memory = fields.bytes("gpu_memory", _GENERIC.memory_bytes)
    sms = fields.whole("sms", _GENERIC.sms, low=1, high=MAX_SMS)
    domain = fields.whole("domain_size", max(size, 1), low=1, high=MAX_CARDS_A_NODE)
    return tuple(Card(f"{node}/{index}", model, memory, sms, index // domain) for index in range(size))


def _card(row: object, where: str, node: str, index: int) -> Card:
    fields = Fields(row, where, _CARD)
    return Card(
        id=fields.text("id", f"{node}/{index}") or f"{node}/{index}",
        model=fields.text("model", _GENERIC.model),
        memory_bytes=fields.bytes("memory", _GENERIC.memory_bytes),
        sms=fields.whole("sms", _GENERIC.sms, low=1, high=MAX_SMS),
        domain=fields.whole("domain", 0, high=MAX_CARDS_A_NODE),
    )


def _windows(fields: Fields, known: set[str]) -> tuple[MaintenanceWindow, ...]:
    if fields.raw("windows") in (None, []):
        return ()
    windows: dict[str, MaintenanceWindow] = {}
    for index, row in enumerate(fields.rows("windows", MAX_WINDOWS)):
        inner = Fields(row, f"{fields.at('windows')}[{index}]", ("id", "nodes", "start", "end"))
        window = _window(inner, known)
        if window.id in windows:
            raise Invalid(inner.at("id"), f"{window.id!r} is used twice", "give each window its own id")
        windows[window.id] = window
    return tuple(windows.values())


def _window(fields: Fields, known: set[str]) -> MaintenanceWindow:
    name = fields.text("id", required=True)
    nodes: list[str] = []
    for index, row in enumerate(fields.rows("nodes", MAX_NODES)):
        field = f"{fields.at('nodes')}[{index}]"
        node = checked_text(row, field)
        if node not in known:
            raise Invalid(field, f"node {node!r} does not exist", "with count, the names are id-0, id-1, …")
        nodes.append(node)
    start_us, end_us = fields.us("start"), fields.optional_us("end")
    if end_us is not None and end_us <= start_us:
        raise Invalid(fields.at("end"), "is not after start", "omit it if the end is unknown")
    return MaintenanceWindow(name, tuple(nodes), start_us, end_us)


def _node_to_dict(node: Node) -> dict:
    result: dict = {"id": node.id, "cpu": cores(node.cpu_milli), "memory": node.memory_bytes}
    if node.rack:
        result["rack"] = node.rack
    if node.extras:
        result["extras"] = dict(node.extras)
    result["cards"] = [
        {"id": card.id, "model": card.model, "memory": card.memory_bytes, "sms": card.sms, "domain": card.domain}
        for card in node.cards
    ]
    return result


def _window_to_dict(window: MaintenanceWindow) -> dict:
    result: dict = {"id": window.id, "nodes": list(window.nodes), "start": seconds(window.start_us)}
    if window.end_us is not None:
        result["end"] = seconds(window.end_us)
    return result
