"""Nodes, their cards, and maintenance windows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpusquad.model.errors import Invalid

GIB = 2**30
_GRID = re.compile(r"(\d+)x(\d+)")


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU."""

    id: str
    model: str = "generic"
    memory_bytes: int = 80 * GIB
    sms: int = 132
    domain: int = 0
    """NVLink domain within the node."""


def is_model(card_model: str, asked: str) -> bool:
    """Whether a user's model name matches a card: ``H100`` and ``h100 80gb`` match ``NVIDIA H100 80GB HBM3``."""
    have, want = card_model.casefold(), asked.casefold()
    return have == want or set(want.split()) <= set(have.split())


@dataclass(frozen=True, slots=True)
class Node:
    """One machine."""

    id: str
    cards: tuple[Card, ...] = ()
    cpu_milli: int = 0
    memory_bytes: int = 0
    rack: str = ""
    extras: tuple[tuple[str, int], ...] = ()
    """Other countable resources with amounts. A resource that is not listed has none."""


@dataclass(frozen=True, slots=True)
class ForeignUsage:
    """Resources of a node used by work that this scheduler did not place and must not stop."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    extras: tuple[tuple[str, int], ...] = ()
    cards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outage:
    """Why a card is unavailable, and what to do about it."""

    cause: str = ""
    cure: str = ""


UNKNOWN_OUTAGE = Outage()


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """Nodes that must be empty from ``start_us`` to ``end_us`` (None: until the window is removed)."""

    id: str
    nodes: tuple[str, ...]
    start_us: int
    end_us: int | None = None


@dataclass(frozen=True)
class Cluster:
    """All nodes, in a fixed order."""

    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        for kind, ids in (
            ("nodes", [n.id for n in self.nodes]),
            ("cards", [c.id for n in self.nodes for c in n.cards]),
        ):
            if len(set(ids)) != len(ids):
                seen: set[str] = set()
                twice = next(i for i in ids if i in seen or seen.add(i))
                raise Invalid(kind, f"id {twice!r} is used twice")

    @property
    def gpus(self) -> int:
        return sum(len(node.cards) for node in self.nodes)


def grid(text: str) -> Cluster:
    """``NODESxGPUS``: equal nodes with ample CPU and memory, for example ``312x8``."""
    match = _GRID.fullmatch(text)
    if match is None or int(match[1]) < 1:
        raise Invalid("cluster", f"cannot read {text!r}", "write NODESxGPUS, for example 4x8, or give a file")
    nodes, gpus = int(match[1]), int(match[2])
    if nodes > 1_000_000 or nodes * max(gpus, 1) > 10_000_000:
        raise Invalid("cluster", f"{text!r} has more than ten million cards")
    cpu_milli, memory_bytes = 16_000 * max(gpus, 1), 256 * GIB * max(gpus, 1)
    return Cluster(
        tuple(
            Node(f"n{n}", tuple(Card(f"n{n}/{c}") for c in range(gpus)), cpu_milli, memory_bytes) for n in range(nodes)
        )
    )
