"""What a policy may see. Policies are written against these; the core implements them."""

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
"""Waiting is not counted as slowdown against less than this: the usual bound of the bounded slowdown."""

WIDTH_POWER = 0.5
"""What width costs a gang in merit: 1 would be all its card time, 0 its run time alone."""


LeftUs = Callable[[Job], int | None]
"""Predicted run time still ahead; None: not known, or without end."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A placement that could not be made: one code and a number."""

    code: ReasonCode
    number: float = 0.0
    note: str = ""
    """What a number cannot say, where a place decides by more than room."""


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """The tasks of one shape within a gang."""

    index: int
    request: Request
    count: int


@dataclass(frozen=True, slots=True)
class RunTimePrediction:
    """Predicted run time: a middle and a high quantile, and where it comes from."""

    mid_us: int
    """When its cards are counted on to be free: the shadow that limits who may slip in."""
    high_us: int
    """How long it may stay: by this it must fit to slip in."""
    source: str = "estimate"
    promise_us: int | None = None
    """What a promise to somebody who waits for its cards is made by. None: the high one."""
    later_us: tuple[int, ...] = ()
    """What is believed next, in turn, when it runs past its prediction."""
    careful_us: int | None = None
    """How long it may stay when somebody's patience is over. None: the high one."""
    merit: float = 0.0
    """Expected slowdown that a second of waiting adds, for each second it is expected to run: who has more is better
    served first. 0: not known, taken from the middle."""
    mean_us: int | None = None
    """How long it takes on average: what many such jobs together ask of the cards. None: the middle one."""

    @property
    def worth(self) -> float:
        """The merit, or what it would be if the middle were certain."""
        return self.merit or US_PER_S * US_PER_S / (max(self.mid_us, BRIEF_US) * self.mid_us)

    def merit_for_width(self, gpus: int) -> float:
        """For the cards it takes: not in full, because a wide gang also clears the way when it goes."""
        return self.worth / max(1, gpus) ** WIDTH_POWER

    @property
    def expected_us(self) -> int:
        """The mean, where it is known."""
        return self.mid_us if self.mean_us is None else self.mean_us

    def within(self, limit_us: int) -> RunTimePrediction:
        """Nothing lasts longer than its limit."""
        if self.high_us <= limit_us and (not self.later_us or self.later_us[-1] <= limit_us):
            return self
        later_us = tuple(dict.fromkeys(min(u, limit_us) for u in self.later_us))
        promise_us = None if self.promise_us is None else min(self.promise_us, limit_us)
        careful_us = None if self.careful_us is None else min(self.careful_us, limit_us)
        mean_us = None if self.mean_us is None else min(self.mean_us, limit_us)
        return replace(self, mid_us=min(self.mid_us, limit_us), high_us=min(self.high_us, limit_us), mean_us=mean_us,
                       promise_us=promise_us, careful_us=careful_us, later_us=later_us)  # fmt: skip

    def less(self, done_us: int) -> RunTimePrediction:
        """What is left when so much is done."""
        return replace(
            self,
            mid_us=max(1, self.mid_us - done_us),
            high_us=max(1, self.high_us - done_us),
            promise_us=None if self.promise_us is None else max(1, self.promise_us - done_us),
            careful_us=None if self.careful_us is None else max(1, self.careful_us - done_us),
            mean_us=None if self.mean_us is None else max(1, self.mean_us - done_us),
            later_us=tuple(u - done_us for u in self.later_us if u > done_us),
        )


@dataclass(frozen=True, slots=True)
class OrderTenant:
    """A tenant as the orders see it."""

    name: str
    weight: float
    dominant_ratio: float
    """Largest share of any resource held now."""
    decayed_gpu_s: float
    """GPU seconds used, fading with the half life."""


class OrderView(Protocol):
    """What an order sees of the world."""

    @property
    def now_us(self) -> int: ...
    @property
    def gpus(self) -> int:
        """Cards there are."""
        ...

    @property
    def due_until_us(self) -> int:
        """Who is due until then has to go first: now, or later where some would be late if the others waited till due.
        For orders that say when a job is due."""
        ...

    def prediction(self, job: Job) -> RunTimePrediction: ...
    def remaining_us(self, job: Job) -> int:
        """Predicted run time still ahead (middle quantile), what was done and kept taken off."""
        ...

    def served_gpu_s(self, job: Job) -> float:
        """GPU seconds the job has had so far."""
        ...

    def tenant(self, name: str) -> OrderTenant: ...
    def waiting(self) -> Sequence[Job]:
        """Pending jobs by request time."""
        ...


class ClusterArraysView(Protocol):
    """The cluster's unchanging arrays. Cards of a node stand together, nodes in cluster order."""

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
    """Free capacity, as arrays. Read only for policies."""

    fixed: ClusterArraysView
    card_ok: NDArray[np.bool_]
    card_idle: NDArray[np.bool_]
    card_memory_free: Ints
    card_sm_free: Ints
    card_slots_free: Ints
    card_load: NDArray[np.float64]
    """Summed profiled utilisation of who shares the card."""
    node_up: NDArray[np.bool_]
    node_idle: Ints
    node_cpu_free: Ints
    node_memory_free: Ints
    sharers: dict[int, tuple[Job, ...]]
    """Who shares a card."""
    card_neighbours_key: Ints
    """Equal for cards whose sharers are equal in all that matters to neighbours: one look serves them all."""
    expected_sharers: dict[int, tuple[tuple[Job, ...], ...]]
    """Who will share a card at later instants of the stay, where a promise brings somebody new."""

    def room(self, request: Request) -> Ints: ...
    def total_room(self, request: Request) -> int: ...
    def node_fits(self, request: Request) -> NDArray[np.bool_]: ...
    def card_room(self, request: Request) -> Ints: ...
    def idle_cards_of(self, node: int, request: Request) -> Ints: ...


class Trial(Protocol):
    """A placement in the making: what is put shows in ``space`` at once, and can be undone without a trace."""

    space: SpaceView
    job: Job
    groups: tuple[TaskGroup, ...]
    """Who needs a certain card or model first, then the largest GPU-memory demand."""
    demand: Sequence[tuple[Request, float]]
    """What tasks usually ask for here, with weights: fragmentation is measured against it."""
    rate: Rate | None
    """How fast jobs are believed to run beside each other. None: nobody knows."""
    left_us: LeftUs | None
    """How long a job is believed to run from now on, beside whom it is. None: nobody knows."""
    waiting: int
    """How many jobs wait, this one among them: so many may be served before a card is idle for the last of them."""
    must_place: bool
    """Nothing better is known to come for this gang: refuse only what cannot be."""

    def put(self, group: TaskGroup, nodes: Ints, cards: Ints) -> None:
        """Place tasks: ``cards`` has one row a task."""
        ...

    def fill(self, group: TaskGroup, nodes: Ints, per_node: int | None = None) -> bool:
        """Place all tasks of a group on these nodes in this order, each as full as it goes (or ``per_node`` a turn)."""
        ...

    def done(self, note: str = "") -> Placement: ...
    def refuse(self, group: TaskGroup, code: ReasonCode = ReasonCode.NO_BLOCK, note: str = "") -> Refusal: ...


class PlanSession(Protocol):
    """A plan's hands: it walks the order, starts who may start, and gives promises."""

    def in_order(self) -> Iterable[Job]:
        """Pending jobs, next first."""
        ...

    def start(self, job: Job) -> bool:
        """Start the gang now if it fits without moving any promise later."""
        ...

    def start_unconditionally(self, job: Job) -> bool:
        """Start the gang now even where its place sees no gain in it, if nobody knows when it could start otherwise."""
        ...

    def reserve(self, job: Job) -> bool:
        """Promise the gang the earliest instant at which it fits whole; False if no instant is known."""
        ...

    def candidates(self, by: str, aged_s: float = inf) -> Iterable[Job]:
        """Pending jobs without a promise that might fit now: in order, shortest first or by merit; before them by
        request time those who have waited longer than ``aged_s``."""
        ...
