"""Forecast of the plan: ends of running gangs, starts of pending ones, and their cards.

The queue table, the summaries of pending jobs and the timeline read the same forecast. It is computed on a copy beside
the scheduler and refreshed when it is requested. The lock is held for one copy and to read the running gangs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property

import structlog

from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.explain.forecast import Eta, Replay
from gpusquad.core.state.runs import NEVER_US
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.server.answers import EndAnswer
from gpusquad.server.services.context import SchedulerContext

STEPS = 300
"""Replay steps. Jobs that start later have no forecast here (``when`` looks further)."""
MAX_PENDING = 3000
"""Longer queues are not replayed."""
FRESH_S = 2.0
REST = 20.0
"""Pause after a replay, as a multiple of its duration, to use a small part of one core."""
RANGE_S = 0.5
"""If one replay takes longer than this, the second one for the P90 start is skipped."""
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
    """Start if every gang runs for the high quantile of its predicted time."""
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

    @cached_property
    def starts(self) -> Mapping[str, Eta]:
        """Job to forecast start."""
        return {run.owner.id: Eta(run.start_us, run.high_us) for run in self.runs}


class PlanForecaster:
    """Safe for any thread."""

    def __init__(self, context: SchedulerContext) -> None:
        self._context = context
        self._plan: PlanForecast | None = None
        self._lock = threading.Lock()
        self._not_before_s = 0.0
        self._is_busy = False
        self._first = threading.Event()

    def ends(self) -> dict[str, EndAnswer]:
        """Predicted ends of running gangs, without those that have no predicted end."""
        with self._context.lock:
            runs = list(self._context.state.runs.by_id.values())
            return {
                run.job.id: EndAnswer(run.end_us, max(run.end_us, run.high_end_us), run.prediction.source)
                for run in runs
                if run.end_us < NEVER_US
            }

    def reservations(self) -> list[PlannedReservation]:
        """In the order of the queue."""
        with self._context.lock:
            state = self._context.state
            known = [one for one in state.timeline.reservations.values() if one.start_us < NEVER_US]
            return [
                PlannedReservation(
                    _owner(one.job), one.start_us, max(one.start_us, _known(one.first_us) or 0), _known(one.end_us),
                    _cards(one.placement, state.space.fixed),
                )
                for one in known
            ]  # fmt: skip

    def plan(self) -> PlanForecast | None:
        """The last forecast; the first caller waits briefly for it. None: the queue is too long, or no forecast yet."""
        if self._pending > MAX_PENDING:
            return None
        if self._claim_refresh():
            self._refresh_beside()
        self._first.wait(FIRST_S)
        return self._plan

    def starts(self, wait: bool = False) -> Mapping[str, Eta]:
        """Job to forecast start, without waiting for a newer forecast. ``wait``: compute it first if it is due."""
        if not 0 < self._pending <= MAX_PENDING:
            return {}
        if self._claim_refresh():
            if wait:
                self._refresh()
            else:
                self._refresh_beside()
        return {} if self._plan is None else self._plan.starts

    @property
    def _pending(self) -> int:
        return len(self._context.state.queue)

    def _claim_refresh(self) -> bool:
        """Whether the forecast is due and this caller has to refresh it. True for one caller at a time."""
        with self._lock:
            due = not self._is_busy and time.monotonic() >= self._not_before_s
            self._is_busy = self._is_busy or due
        return due

    def _refresh_beside(self) -> None:
        threading.Thread(target=self._refresh, name="plan-forecast", daemon=True).start()

    def _refresh(self) -> None:
        began_s = time.monotonic()
        try:
            self._plan = planned(self._context.copy_now())
        except Exception:
            _log.exception("plan not forecast")
        with self._lock:
            self._is_busy = False
            took_s = time.monotonic() - began_s
            self._not_before_s = time.monotonic() + max(FRESH_S, REST * took_s)
        self._first.set()


def planned(state: SchedulerState) -> PlanForecast:
    """All pending jobs of this state, replayed with the median of all run times, and with the high quantile if that is
    fast enough."""
    waiting = list(state.queue)
    if not waiting:
        return PlanForecast(state.now_us)
    pending = {one.job.id for one in waiting}
    began_s = time.monotonic()
    mid = Replay(state, "mid")
    mid.run(pending, STEPS)
    high_starts = _high_starts(state, pending) if time.monotonic() - began_s <= RANGE_S else {}
    runs: list[PlannedRun] = []
    for position, one in enumerate(waiting, 1):
        start_us = mid.started.get(one.job.id)
        if start_us is None:
            continue
        high_us = high_starts.get(one.job.id)
        # Longer runs can let a gang start earlier, so the P90 start is bounded.
        high_us = None if high_us is None else max(start_us, high_us)
        runs.append(PlannedRun(
            _owner(one.job), position, start_us, high_us, _known(start_us + one.prediction.mid_us),
            None if high_us is None else _known(high_us + one.prediction.high_us),
            _cards(mid.placed.get(one.job.id), state.space.fixed),
        ))  # fmt: skip
    return PlanForecast(state.now_us, tuple(runs), len(waiting) - len(runs))


def _high_starts(state: SchedulerState, pending: Set[str]) -> dict[str, int]:
    """Starts if every gang runs for the high quantile of its predicted time."""
    replay = Replay(state, "high")
    replay.run(pending, STEPS)
    return replay.started


def _owner(job: Job) -> BarOwner:
    return BarOwner(job.id, job.name, job.tenant, job.user, job.gpus)


def _known(at_us: int) -> int | None:
    return at_us if at_us < NEVER_US else None


def _cards(placement: Placement | None, fixed: ClusterArrays) -> tuple[str, ...]:
    return () if placement is None else tuple(fixed.card_ids[card] for card in placement.all_cards())
