"""The whole cluster, its nodes, and who used what."""

from __future__ import annotations

from typing import TypedDict

from gpusquad.client.shapes.cards import CardView
from gpusquad.client.shapes.windows import Window


class NodeView(TypedDict):
    id: str
    rack: str
    up: bool
    drained: bool
    cpu_milli: int
    cpu_free_milli: int
    memory_bytes: int
    memory_free_bytes: int
    cards: list[CardView]
    windows: list[Window]


class ClusterView(TypedDict):
    gpus: int
    free: int
    usable: dict[str, int]
    unhealthy: int
    taken_outside: int
    simulated: bool
    mode: str


class UsageRow(TypedDict):
    key: str
    tenant: str
    gpu_hours: float
    jobs: int
    attempts: int
