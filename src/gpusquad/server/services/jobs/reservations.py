"""Records new and moved reservations as events, and as forecasts to compare with the actual starts."""

from __future__ import annotations

from collections.abc import Sequence

from gpusquad.core.state.runs import NEVER_US
from gpusquad.model.decision import Decision, Start
from gpusquad.model.units import US_PER_S, show_us
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.store import forecasts
from gpusquad.store.forecasts import ForecastRow

REPORT_US = 60 * US_PER_S
REPORT_RATIO = 0.05
"""A later start is reported if it moved by more than both (the ratio applies to the time until the start)."""


class ReservationLog:
    """Records what each cycle reserved."""

    def __init__(self, context: SchedulerContext) -> None:
        self._context = context
        self._reported: dict[str, int] = {}
        """Job to the start that was reported last."""
        self.blamed: set[str] = set()
        """Words of the causes reported in this pass; they include the ids of jobs that delay others."""

    def record(self, unit: UnitOfWork, decisions: Sequence[Decision]) -> None:
        """Record starts and new or moved reservations of a cycle."""
        for decision in decisions:
            if isinstance(decision, Start):
                self._settle(unit, decision.job_id)
        state = self._context.state
        causes = {job_id: why for job_id, _, _, why in state.delayed_starts}
        state.delayed_starts.clear()
        self.blamed.clear()
        for job_id, reservation in state.timeline.reservations.items():
            if reservation.start_us < NEVER_US and job_id in unit.rows:
                self._reserved(
                    unit,
                    job_id,
                    reservation.start_us,
                    reservation.first_us,
                    causes.get(job_id, state.last_replan_cause),
                )
        for job_id in [job_id for job_id in self._reported if job_id not in unit.rows]:
            del self._reported[job_id]

    def _reserved(self, unit: UnitOfWork, job_id: str, start_us: int, high_us: int, why: str) -> None:
        before_us = self._reported.get(job_id)
        if before_us is None:
            self._reported[job_id] = start_us
            row = ForecastRow(job_id=job_id, made_us=unit.now_us, mid_us=start_us, high_us=max(start_us, high_us),
                              truth_us=None)  # fmt: skip
            unit.writes.append(lambda c: forecasts.add(c, row))
            unit.record(job_id, "promised", data={"start_us": start_us})
        elif start_us - before_us > max(REPORT_US, int(REPORT_RATIO * (before_us - unit.now_us))):
            self._reported[job_id] = start_us
            self.blamed.update(why.split())
            later = f"expected {show_us(start_us - before_us)} later than reported before"
            text = f"{with_names(why, unit, job_id)}: {later}" if why else later
            unit.record(job_id, "eta_moved", text, data={"start_us": start_us, "before_us": before_us})

    def _settle(self, unit: UnitOfWork, job_id: str) -> None:
        reserved_us = self._reported.pop(job_id, None)
        if reserved_us is not None:
            self._context.observer.forecast_settled((unit.now_us - reserved_us) / US_PER_S)
        unit.writes.append(lambda c: forecasts.settle(c, job_id, unit.now_us))


def with_names(why: str, unit: UnitOfWork, job_id: str) -> str:
    """Replace job ids by the names of the jobs. Jobs of other tenants are named by id only."""
    return "; ".join(_named(part, unit, unit.rows[job_id].tenant) for part in why.split("; "))


def _named(why: str, unit: UnitOfWork, tenant: str) -> str:
    who, _, rest = why.partition(" ")
    row = unit.rows.get(who)
    if row is None:
        return why
    if row.tenant != tenant:
        return f"job {row.id} of another tenant {rest}"
    return f"{row.name} ({row.id}) of {row.user} {rest}" if row.name else f"{row.id} of {row.user} {rest}"
