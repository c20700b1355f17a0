"""Forecast of the plan: ends of running gangs, starts of pending ones, their cards, and why they wait.

All pages read the same forecast and the same reasons, for the state after the scheduler's last pass. They are computed
on a copy beside the scheduler when they are requested. The lock is held for one copy and to read the running gangs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Set
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property

import structlog

from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.explain import explain
from gpusquad.core.explain.forecast import Eta, Replay
from gpusquad.core.state.runs import NEVER_US, is_foreseeable
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.reasons import Reason
from gpusquad.model.units import US_PER_S
from gpusquad.predict.start_calibration import StartRange
from gpusquad.server.answers import EndAnswer
from gpusquad.server.services.context import SchedulerContext

STEPS = 300
"""Replay steps. Jobs that start later have no forecast here (``when`` looks further)."""
MAX_PENDING = 3000
"""Longer queues are not replayed."""
DEEP_STEPS = 2000
"""Replay steps for one job that a caller asks for."""
CHEAP_S = 0.02
"""A forecast that takes less CPU time is computed by whoever asks first after a pass. A longer one is computed beside
the callers, who get the last one until then."""
FEW_PENDING = 100
"""Pending jobs up to which the first forecast is taken to be cheap."""
REASONS_US = US_PER_S
"""Reasons are given again after this time, because they contain times that have passed."""
REST = 20.0
"""Pause after such a forecast, as a multiple of its CPU time, to use a small part of one core."""
RANGE_S = 0.5
"""If one replay takes longer than this, there is no second one for P90 starts that past starts do not give."""
FIRST_S = 0.5
"""Longest wait of a caller for the first forecast."""
_log = structlog.get_logger("gpusquad.plan_forecast")


@dataclass(frozen=True, slots=True)
class BarOwner:
    """Job that a bar belongs to."""

    id: str
    name: str
    tenant: str
    user: str
    gpus: int


@dataclass(frozen=True, slots=True)
class PlannedReservation:
    """A reservation."""

    owner: BarOwner
    start_us: int
    latest_us: int
    """First reserved start, from pessimistic run times."""
    end_us: int | None
    cards: tuple[str, ...]
    """Empty if only a number of cards is reserved."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A pending job as replaying the plan starts it."""

    owner: BarOwner
    position: int
    start_us: int
    high_us: int | None
    """P90 of the start: see `high_starts`. None: unknown."""
    end_us: int | None
    end_high_us: int | None
    cards: tuple[str, ...]


@dataclass(frozen=True)
class PlanForecast:
    """The plan forecast at one time."""

    at_us: int
    runs: tuple[PlannedRun, ...] = ()
    unknown: int = 0
    """Pending jobs that start after the last replay step."""
    promised: Mapping[str, int] = field(default_factory=dict)
    """Job to the start that was promised to it first."""
    version: int = -1
    """Pass of the scheduler after which it was made."""
    ranges: StartRange = field(default_factory=StartRange)
    """What past starts say of these."""
    further: dict[str, Eta] = field(default_factory=dict)
    """Starts after the last replay step, of jobs that somebody asked for."""

    @cached_property
    def starts(self) -> Mapping[str, Eta]:
        """Job to forecast start."""
        return {run.owner.id: Eta(run.start_us, run.high_us, self.promised.get(run.owner.id)) for run in self.runs}

    def eta(self, job_id: str) -> Eta:
        """What is known of the start of a pending job."""
        return self.starts.get(job_id) or self.further.get(job_id) or Eta(None, None, self.promised.get(job_id))


class PendingReasons:
    """Why the jobs wait that are pending after one pass. Computed when somebody asks, and kept."""

    def __init__(self, version: int, state: SchedulerState) -> None:
        self.version = version
        self.state = state
        """Not modified."""
        self._known: dict[str, list[Reason]] = {}
        self._lock = threading.Lock()

    @cached_property
    def _explainer(self) -> explain.Explainer:
        own = explain.copy_state(self.state)
        own.space.fixed = copy(own.space.fixed)  # place policies cache results by it
        return explain.Explainer(own)

    def of(self, job_id: str) -> list[Reason]:
        """All reasons. Empty: the next cycle starts it."""
        with self._lock:
            if job_id not in self._known:
                self._known[job_id] = self._explainer.reasons(job_id)
            return self._known[job_id]

    def known(self, job_id: str) -> list[Reason] | None:
        """The reasons, if somebody has asked for them."""
        return self._known.get(job_id)

    def position(self, job_id: str) -> int | None:
        return explain.position(self.state, job_id) if job_id in self.state.queue else None


class PlanForecaster:
    """Safe for any thread."""

    def __init__(self, context: SchedulerContext) -> None:
        self._context = context
        self._plan: PlanForecast | None = None
        self._reasons: PendingReasons | None = None
        self._lock = threading.Lock()
        self._computing = threading.Lock()
        self._cpu_s: float | None = None
        """CPU time of the last forecast."""
        self._not_before_s = 0.0
        self._is_busy = False
        self._first = threading.Event()

    def reasons(self) -> PendingReasons:
        """For the state after the last pass, as of now."""
        with self._lock:
            known = self._reasons
            if known is None or known.version != self._context.version or self._age_us(known) >= REASONS_US:
                known = self._reasons = PendingReasons(*self._context.versioned_copy())
            return known

    def _age_us(self, reasons: PendingReasons) -> int:
        return self._context.clock.now_us() - reasons.state.now_us

    def current(self) -> PlanForecast:
        """The forecast for the state after the last pass. Of a queue that is too long, only what callers asked for."""
        with self._computing:
            if self._plan is None or self._plan.version != self._context.version:
                self._refresh()
            assert self._plan is not None
            return self._plan

    def eta(self, job_id: str) -> tuple[int, Eta]:
        """Forecast start of a pending job, with a longer replay if necessary, and when it was made."""
        plan, state = self.current(), self.reasons().state
        with self._computing:
            if job_id not in plan.starts and job_id not in plan.further and job_id in state.queue:
                plan.further[job_id] = further(state, job_id, plan.ranges)
        return plan.at_us, plan.eta(job_id)

    def latest(self) -> PlanForecast | None:
        """The current forecast if that is cheap, otherwise the last one, and a newer one is made."""
        plan = self._plan
        if plan is not None and plan.version == self._context.version:
            return plan
        if self._pending > MAX_PENDING:
            return None
        if self._is_cheap:
            return self.current()
        if self._claim_refresh():
            threading.Thread(target=self._refresh_claimed, name="plan-forecast", daemon=True).start()
        return self._plan

    def ends(self) -> dict[str, EndAnswer]:
        """Predicted ends of running gangs, without those that have no predicted end."""
        with self._context.lock:
            runs = list(self._context.state.runs.by_id.values())
            return {
                run.job.id: EndAnswer(run.end_us, max(run.end_us, run.high_end_us), run.prediction.source)
                for run in runs
                if is_foreseeable(run.end_us, self._context.state.now_us)
            }

    def reservations(self) -> list[PlannedReservation]:
        """In the order of the queue."""
        with self._context.lock:
            state = self._context.state
            reservations = state.timeline.reservations.values()
            known = [one for one in reservations if is_foreseeable(one.start_us, state.now_us)]
            return [
                PlannedReservation(
                    _owner(one.job), one.start_us, max(one.start_us, _known(one.first_us) or 0), _known(one.end_us),
                    _cards(one.placement, state.space.fixed),
                )
                for one in known
            ]  # fmt: skip

    def plan(self) -> PlanForecast | None:
        """The latest forecast; the first caller waits briefly for it. None: the queue is too long, or no forecast
        yet."""
        plan = self.latest()
        if plan is None and self._pending <= MAX_PENDING:
            self._first.wait(FIRST_S)
            plan = self._plan
        return plan if self._pending <= MAX_PENDING else None

    @property
    def _pending(self) -> int:
        return len(self._context.state.queue)

    @property
    def _is_cheap(self) -> bool:
        return self._pending <= FEW_PENDING if self._cpu_s is None else self._cpu_s <= CHEAP_S

    def _claim_refresh(self) -> bool:
        """Whether the forecast is due and this caller has to refresh it. True for one caller at a time."""
        with self._lock:
            due = not self._is_busy and time.monotonic() >= self._not_before_s
            self._is_busy = self._is_busy or due
        return due

    def _refresh_claimed(self) -> None:
        try:
            self.current()
        except Exception:
            _log.exception("plan not forecast")
        finally:
            with self._lock:
                self._is_busy = False
            self._first.set()

    def _refresh(self) -> None:
        began_s = time.thread_time()
        reasons = self.reasons()
        state, ranges = reasons.state, self._context.starts.at(reasons.state.now_us)
        plan = planned(state, ranges) if len(state.queue) <= MAX_PENDING else PlanForecast(state.now_us, ranges=ranges)
        self._plan = replace(plan, version=reasons.version)
        self._cpu_s = time.thread_time() - began_s
        self._not_before_s = time.monotonic() + REST * self._cpu_s
        self._first.set()


def planned(state: SchedulerState, ranges: StartRange, range_s: float | None = None) -> PlanForecast:
    """All pending jobs of this state, replayed with the median of all run times. P90 starts are those of ``ranges``. If
    it knows too little, they come from a second replay, unless the first took longer than ``range_s`` (default:
    `RANGE_S`)."""
    waiting = list(state.queue)
    if not waiting:
        return PlanForecast(state.now_us, ranges=ranges)
    pending = {one.job.id for one in waiting}
    began_s, most_s = time.thread_time(), RANGE_S if range_s is None else range_s
    mid = Replay(state, "mid")
    mid.run(pending, STEPS)
    may_replay = time.thread_time() - began_s <= most_s
    highs = high_starts(state, mid, pending, STEPS if may_replay else 0, ranges)
    runs: list[PlannedRun] = []
    for position, one in enumerate(waiting, 1):
        start_us = mid.started.get(one.job.id)
        if start_us is None:
            continue
        high_us = highs.get(one.job.id)
        runs.append(PlannedRun(
            _owner(one.job), position, start_us, high_us, _known(start_us + one.prediction.mid_us),
            None if high_us is None else _known(high_us + one.prediction.high_us),
            _cards(mid.placed.get(one.job.id), state.space.fixed),
        ))  # fmt: skip
    return PlanForecast(state.now_us, tuple(runs), len(waiting) - len(runs), mid.reserved_us, ranges=ranges)


def further(state: SchedulerState, job_id: str, ranges: StartRange) -> Eta:
    """Forecast of one start by a longer replay."""
    mid = Replay(state, "mid")
    mid.run({job_id}, DEEP_STEPS)
    highs = high_starts(state, mid, {job_id}, DEEP_STEPS, ranges)
    return Eta(mid.started.get(job_id), highs.get(job_id), mid.reserved_us.get(job_id))


def high_starts(state: SchedulerState, mid: Replay, jobs: Set[str], steps: int, ranges: StartRange) -> dict[str, int]:
    """P90 of the starts in a replay of medians: by how much past starts differed from such forecasts. Where too little
    is known of past starts, the start if every gang runs for the high quantile of its predicted time, which is a joint
    worst case. 0 steps: without these."""
    found: dict[str, int] = {}
    unknown: dict[str, int] = {}
    for job_id in jobs & mid.started.keys():
        start_us = mid.started[job_id]
        high_us = ranges.high_us(state.queue[job_id].job.tenant, state.now_us, start_us)
        if high_us is None:
            unknown[job_id] = start_us
        elif is_foreseeable(high_us, state.now_us):
            found[job_id] = high_us
    if unknown and steps:
        replay = Replay(state, "high")
        replay.run(unknown.keys(), steps)
        # Longer runs can let a gang start earlier, so the P90 start is bounded.
        found |= {job_id: max(us, replay.started[job_id]) for job_id, us in unknown.items() if job_id in replay.started}
    return found


def _owner(job: Job) -> BarOwner:
    return BarOwner(job.id, job.name, job.tenant, job.user, job.gpus)


def _known(at_us: int) -> int | None:
    return at_us if at_us < NEVER_US else None


def _cards(placement: Placement | None, fixed: ClusterArrays) -> tuple[str, ...]:
    return () if placement is None else tuple(fixed.card_ids[card] for card in placement.all_cards())
