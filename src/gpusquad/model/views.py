"""Interfaces between policies and the core. The core implements them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpusquad.model.interference import Rate
from gpusquad.model.job import Job, Request
from gpusquad.model.placement import Ints, Placement
from gpusquad.model.reasons import ReasonCode
from gpusquad.model.units import US_PER_S

BRIEF_US = 10 * US_PER_S
"""Lower bound of the run time in the bounded slowdown, as usual in the literature."""

WIDTH_POWER = 0.5
"""Exponent of the number of GPUs in the merit. 1 would divide by all card time, 0 by the run time alone."""


LeftUs = Callable[[Job], int | None]
"""Predicted remaining run time. None: unknown or unlimited."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one placement failed."""

    code: ReasonCode
    number: float = 0.0
    note: str = ""
    """Detail from a place policy that decides by more than free capacity."""


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """The tasks of one shape within a gang."""

    index: int
    request: Request
    count: int


@dataclass(frozen=True, slots=True)
class RunTimePrediction:
    """Predicted run time: a median and a high quantile, with their source."""

    mid_us: int
    """Median. The timeline releases the cards after this time, which sets the shadow time of reservations."""
    high_us: int
    """High quantile. A backfilled job must end before a reservation by this time."""
    source: str = "estimate"
    promise_us: int | None = None
    """Run time by which a job that waits for these cards gets its reported start. None: ``high_us``."""
    later_us: tuple[int, ...] = ()
    """Next predictions, in ascending order, for a run that exceeds the current one."""
    careful_us: int | None = None
    """Used instead of ``high_us`` while the head of the queue has waited too long. None: ``high_us``."""
    merit: float = 0.0
    """Expected slowdown added per second of waiting, divided by the expected run time in seconds. The larger, the
    earlier the job should start. 0: unknown, derived from the median."""
    mean_us: int | None = None
    """Mean, for estimating the total load of many jobs. None: the median."""
    word_us: int | None = None
    """Stay that is assumed of a backfilled job, and for which it is admitted, if that is not a high quantile."""

    @property
    def effective_merit(self) -> float:
        """The merit, or the merit of a run time that is exactly the median."""
        return self.merit or US_PER_S * US_PER_S / (max(self.mid_us, BRIEF_US) * max(self.mid_us, 1))

    @property
    def last_us(self) -> int:
        """Run time after which a job has outlived every quantile that is used for planning."""
        return max(self.high_us, self.promise_us or 0, self.careful_us or 0)

    def merit_for_width(self, gpus: int) -> float:
        """Merit of a gang on ``gpus`` cards. Width counts only in part, because a wide gang also frees many cards."""
        return self.effective_merit / max(1, gpus) ** WIDTH_POWER

    @property
    def expected_us(self) -> int:
        """The mean if known, else the median."""
        return self.mid_us if self.mean_us is None else self.mean_us

    def within(self, limit_us: int) -> RunTimePrediction:
        """The prediction capped at a time limit."""
        if self.high_us <= limit_us and (not self.later_us or self.later_us[-1] <= limit_us):
            return self
        later_us = tuple(dict.fromkeys(min(u, limit_us) for u in self.later_us))
        promise_us = None if self.promise_us is None else min(self.promise_us, limit_us)
        careful_us = None if self.careful_us is None else min(self.careful_us, limit_us)
        mean_us = None if self.mean_us is None else min(self.mean_us, limit_us)
        word_us = None if self.word_us is None else min(self.word_us, limit_us)
        return replace(self, mid_us=min(self.mid_us, limit_us), high_us=min(self.high_us, limit_us), mean_us=mean_us,
                       promise_us=promise_us, careful_us=careful_us, later_us=later_us, word_us=word_us)  # fmt: skip

    def less(self, done_us: int) -> RunTimePrediction:
        """The prediction for the rest of a run after ``done_us``."""
        return replace(
            self,
            mid_us=max(1, self.mid_us - done_us),
            high_us=max(1, self.high_us - done_us),
            promise_us=None if self.promise_us is None else max(1, self.promise_us - done_us),
            careful_us=None if self.careful_us is None else max(1, self.careful_us - done_us),
            mean_us=None if self.mean_us is None else max(1, self.mean_us - done_us),
            later_us=tuple(u - done_us for u in self.later_us if u > done_us),
            word_us=None if self.word_us is None else max(1, self.word_us - done_us),
        )


@dataclass(frozen=True, slots=True)
class OrderTenant:
    """A tenant as order policies see it."""

    name: str
    weight: float
    dominant_ratio: float
    """Largest fraction of any resource that the tenant holds now."""
    decayed_gpu_s: float
    """GPU seconds used, decayed with the half-life."""


class OrderView(Protocol):
    """What an order policy can read."""

    @property
    def now_us(self) -> int: ...
    @property
    def gpus(self) -> int:
        """Number of cards in the cluster."""
        ...

    @property
    def due_until_us(self) -> int:
        """Jobs due by this instant go first. It is later than now if some of them would start too late otherwise.
        Used by order policies that define when a job is due."""
        ...

    def prediction(self, job: Job) -> RunTimePrediction: ...
    def remaining_us(self, job: Job) -> int:
        """Predicted remaining run time (median), without the work that checkpoints kept."""
        ...

    def served_gpu_s(self, job: Job) -> float:
        """GPU seconds the job has used so far, in all attempts."""
        ...

    def tenant(self, name: str) -> OrderTenant: ...
    def waiting(self) -> Sequence[Job]:
        """Pending jobs by eligible time."""
        ...


class ClusterArraysView(Protocol):
    """Constant arrays of the cluster. The cards of a node are adjacent; nodes are in cluster order."""

    node_ids: list[str]
    card_ids: list[str]
    models: list[str]
    node_cards: Ints
    node_first: Ints
    node_rack: Ints
    node_cpu: Ints
    node_memory: Ints
    card_node: Ints
    card_memory: Ints
    card_model: Ints
    card_domain: Ints

    def eligible_cards(self, request: Request) -> NDArray[np.bool_] | None: ...


class SpaceView(Protocol):
    """Free capacity as arrays. Policies must not write to them."""

    @property
    def fixed(self) -> ClusterArraysView: ...

    card_ok: NDArray[np.bool_]
    card_idle: NDArray[np.bool_]
    card_memory_free: Ints
    card_sm_free: Ints
    card_slots_free: Ints
    card_load: NDArray[np.float64]
    """Sum of the profiled utilisation of the jobs that share the card."""
    node_up: NDArray[np.bool_]
    node_idle: Ints
    node_cpu_free: Ints
    node_memory_free: Ints
    sharers: dict[int, tuple[Job, ...]]
    """Jobs that share a card."""
    card_neighbours_key: Ints
    """Equal for cards whose sharers are equivalent as neighbours, so that a policy needs to evaluate only one."""
    expected_sharers: dict[int, tuple[tuple[Job, ...], ...]]
    """Sets of jobs that will share a card later during the stay, because of reservations."""

    def room(self, request: Request) -> Ints: ...
    def total_room(self, request: Request) -> int: ...
    def node_fits(self, request: Request) -> NDArray[np.bool_]: ...
    def card_room(self, request: Request) -> Ints: ...
    def idle_cards_of(self, node: int, request: Request) -> Ints: ...


class Trial(Protocol):
    """A placement being built. ``space`` reflects every task put so far; a refusal undoes them all."""

    @property
    def space(self) -> SpaceView: ...

    job: Job
    groups: tuple[TaskGroup, ...]
    """Groups that need a named card or model first, then by descending GPU memory."""
    demand: Sequence[tuple[Request, float]]
    """Typical task requests with weights, against which fragmentation is measured."""
    rate: Rate | None
    """Predicted rate of a job beside given neighbours. None: unknown."""
    left_us: LeftUs | None
    """Predicted remaining run time of a job beside its current neighbours. None: unknown."""
    waiting: int
    """Number of pending jobs, including this one."""
    must_place: bool
    """No better placement is expected later: refuse only if the gang cannot be placed at all."""

    def put(self, group: TaskGroup, nodes: Ints, cards: Ints) -> None:
        """Place tasks. ``cards`` has one row per task."""
        ...

    def fill(self, group: TaskGroup, nodes: Ints, per_node: int | None = None) -> bool:
        """Place all tasks of a group on these nodes in this order. Fills each node, or places ``per_node`` tasks on
        every node per round."""
        ...

    def done(self, note: str = "") -> Placement: ...
    def refuse(self, group: TaskGroup, code: ReasonCode = ReasonCode.NO_BLOCK, note: str = "") -> Refusal: ...


class PlanSession(Protocol):
    """What a plan policy can do in one cycle."""

    def in_order(self) -> Iterable[Job]:
        """Pending jobs in the order of the order policy."""
        ...

    def start(self, job: Job) -> bool:
        """Start the gang now if it fits without delaying a reservation."""
        ...

    def start_unconditionally(self, job: Job) -> bool:
        """Start the gang now although the place policy sees no gain, if no later start is known."""
        ...

    def reserve(self, job: Job) -> bool:
        """Reserve cards at the earliest instant at which the whole gang fits. False: no such instant is known."""
        ...

    def candidates(self, by: str, aged_s: float = inf) -> Iterable[Job]:
        """Pending jobs without a reservation that might fit now: in order, shortest first or by merit. Jobs that have
        waited longer than ``aged_s`` come first, by eligible time."""
        ...
