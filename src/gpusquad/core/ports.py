"""How the core meets the outside: events come in, decisions go out. Time comes with both; the core has no clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gpusquad.model.decision import Decision
from gpusquad.model.job import Job
from gpusquad.model.views import Forecast


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job asks to run."""

    job: Job
    forecast: Forecast


@dataclass(frozen=True, slots=True)
class Ended:
    """A gang is gone from its cards: finished, failed, or preempted as told."""

    job_id: str
    how: Literal["succeeded", "failed", "timed_out", "preempted", "lost"]
    kept_us: int = 0
    """Work that outlives the attempt (checkpoints); counts when the job runs again."""


@dataclass(frozen=True, slots=True)
class Slowed:
    """A neighbour came or went: what is left takes that many times as long."""

    job_id: str
    ratio: float


@dataclass(frozen=True, slots=True)
class Resized:
    """The tasks an elastic gang was told to give up have gone."""

    job_id: str


@dataclass(frozen=True, slots=True)
class CardChanged:
    """A card is lost or comes back."""

    card_id: str
    ok: bool


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node is drained (takes nothing new) or takes work again."""

    node_id: str
    up: bool


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The user takes a pending job back."""

    job_id: str


Event = Submitted | Ended | Slowed | Resized | CardChanged | NodeChanged | Cancelled

CarryOut = Callable[[int, Sequence[Decision]], None]
"""An engine's end of the loop: told the time and what to do. What comes of it returns as events."""
