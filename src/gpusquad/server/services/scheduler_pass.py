"""One pass of the scheduler, as one explicit sequence.

A pass handles the inbox, decides, commits all changes in one transaction, and only then acts. So nothing runs that is
not stored, and a crash at any point leaves either nothing or a record to recover from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from gpusquad.core.state.runs import NEVER_US
from gpusquad.model.decision import Decision
from gpusquad.model.units import US_PER_S
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.holds import Holds
from gpusquad.server.services.jobs.outcomes import Outcomes
from gpusquad.server.services.jobs.overruns import Overruns
from gpusquad.server.services.jobs.reservations import ReservationLog
from gpusquad.server.services.jobs.urgent_budgets import UrgentBudgets
from gpusquad.server.services.queries.queries import QueryService
from gpusquad.server.services.runtime.loop import Finish, Item, ServiceStopping
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.store.database import StoreUnavailable

_log = structlog.get_logger("gpusquad.scheduler")
_FIRST_RETRY_S, _LAST_RETRY_S = 0.1, 2.0
MAX_SLEEP_S = 60.0


@dataclass
class SchedulerPass:
    """Runs passes over the context, one after another, in the scheduler's thread."""

    context: SchedulerContext
    outcomes: Outcomes
    holds: Holds
    queries: QueryService
    reservations: ReservationLog
    overruns: Overruns
    budgets: UrgentBudgets
    review: Callable[[], None]
    """Lets an automatic mode choose."""
    _cycle_began_s: float = 0.0

    def run(self, items: Sequence[Item]) -> float | None:
        """One pass. Returns the seconds until the next one. An unexpected error stops the service."""
        try:
            return self._run(items)
        except ServiceStopping:
            raise
        except Exception as error:
            _log.exception("scheduler failed; the next start continues from the store")
            self.context.unavailable = f"the scheduler failed: {type(error).__name__}"
            self.context.on_broken()
            raise ServiceStopping(self.context.unavailable) from error

    def _run(self, items: Sequence[Item]) -> float | None:
        context = self.context
        now_us = context.clock.now_us()
        unit = context.unit = UnitOfWork(now_us, context.rows)
        self.budgets.refresh()
        with context.lock:
            context.version += 1
            finishes = [finish for item in items if (finish := self._handle(item)) is not None]
            self.queries.record_forecasts(unit)
            self.budgets.lower(unit)
            wake_us = self.holds.release_due(unit)
            self.review()
            self._decide(now_us)
            self.overruns.record(unit)
            wake_us = min(wake_us, context.driver.next_wake_us())
        self._commit(unit)
        for finish in finishes:
            finish()
        for act in unit.after_commit:
            self._act(act)
        if wake_us >= NEVER_US:
            return MAX_SLEEP_S
        return min(max(0.0, (wake_us - context.clock.now_us()) / US_PER_S), MAX_SLEEP_S)

    def _decide(self, now_us: int) -> None:
        """Run a cycle. The driver passes its decisions to ``carry_out``."""
        self._cycle_began_s = time.perf_counter()
        driver = self.context.driver
        driver.decide(now_us)
        for job_id, delay_us in driver.head_delays.take_settled():
            self.context.observer.head_started(delay_us / US_PER_S)
            self.reservations.head_started(self.context.unit, job_id, delay_us)

    def carry_out(self, now_us: int, decisions: Sequence[Decision]) -> None:
        """Sink of the driver: turn the decisions of a cycle into row changes, events and calls after the commit."""
        self.context.observer.cycled(time.perf_counter() - self._cycle_began_s)
        self.outcomes.apply(self.context.unit, decisions)
        self.reservations.record(self.context.unit, decisions)

    def _handle(self, item: Item) -> Finish | None:
        try:
            return item()
        except Exception:
            _log.exception("event not handled")
            return None

    def _act(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:
            _log.exception("action after commit failed")

    def _commit(self, unit: UnitOfWork) -> None:
        """Store the unit of work, and retry until it succeeds: until then nothing may act and no caller may get an
        answer."""
        if not unit.has_writes:
            return
        context, wait_s = self.context, _FIRST_RETRY_S
        while True:
            try:
                with context.database.write() as connection:
                    numbers = unit.write(connection)
                break
            except StoreUnavailable as error:
                if not context.unavailable:
                    _log.warning("the store does not answer; decisions wait", error=str(error))
                context.unavailable = str(error)
            if not context.loop.pause(wait_s):
                raise ServiceStopping("the service is stopping and its store does not answer")
            wait_s = min(2 * wait_s, _LAST_RETRY_S)
        if context.unavailable:
            context.unavailable = ""
            _log.info("the store answers again")
        context.notify(list(zip(numbers, unit.events, strict=True)))
