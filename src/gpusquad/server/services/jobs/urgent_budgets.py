"""Budgets of urgent GPU-hours, which bound the use that a tenant makes of priorities above high.

If the budget is used up, new jobs with such a priority are refused, pods are lowered to high, and pending jobs are
lowered within ``CHECK_US``. Running jobs continue. Administrators are not bound, but their jobs count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from gpusquad.core.ports import JobUpdated
from gpusquad.core.transitions import JobState
from gpusquad.model.codec import job_to_dict
from gpusquad.model.job import Job
from gpusquad.model.priority import HIGH, highest, is_above_high, level_of
from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import Who
from gpusquad.server.errors import Forbidden
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.reservations import instant
from gpusquad.server.services.jobs.rights import RESTRICTED
from gpusquad.server.services.runtime.tenants import TenantCache
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.server.services.usage.urgent_hours import WINDOW_DAYS, falls_below_us, used_hours
from gpusquad.store import events, people
from gpusquad.store.errors import StoreUnavailable
from gpusquad.store.events import EventRow
from gpusquad.store.jobs import JobRow

CHECK_US = 60 * US_PER_S
"""Time between two checks of the pending jobs."""
_PENDING = (JobState.PENDING, JobState.HELD)


@dataclass(frozen=True, slots=True)
class SpentBudget:
    """A budget that is used up."""

    tenant: str
    used_hours: float
    budget_hours: float

    @property
    def text(self) -> str:
        return (
            f"tenant {self.tenant} has used {self.used_hours:.1f} of its {self.budget_hours:g} urgent GPU-hours of the "
            f"last {WINDOW_DAYS} days"
        )

    @property
    def command(self) -> str:
        """What an administrator can run to raise the budget."""
        return f"gpusquad tenant set {self.tenant} --urgent-hours N"


def check_budget(refused: Forbidden | None, job: Job, before: Job | None = None) -> None:
    """Raise what ``UrgentBudgets.refusal`` found, unless the job already has (``before``) as high a priority."""
    if refused is not None and (before is None or level_of(job.priority) > level_of(before.priority)):
        raise refused


class UrgentBudgets:
    """Checks jobs against the budgets of their tenants."""

    def __init__(
        self,
        context: SchedulerContext,
        tenants: TenantCache,
        cluster_priority: Callable[[str], str],
        note: Callable[[str, Job], None] | None = None,
    ) -> None:
        """``cluster_priority``: the priority that the cluster grants to the pods of a job. ``note``: records a lowered
        job on the cluster objects that were created for it."""
        self._context = context
        self._tenants = tenants
        self._cluster_priority = cluster_priority
        self._note = note
        self._spent: dict[str, SpentBudget] = {}
        """By tenant, as of the last check."""
        self._to_lower: dict[str, tuple[str, str]] = {}
        """Pending jobs with the priority at the last check and the one to be set."""
        self._version, self._next_us = -1, 0

    # -- requests, from any thread ---------------------------------------------------------------------------------

    def check(self, jobs: Iterable[Job], who: Who) -> None:
        """Refuse new jobs whose tenant has used up its budget."""
        for tenant, priority in {job.tenant: job.priority for job in jobs if is_above_high(job.priority)}.items():
            if (refused := self.refusal(tenant, priority, who)) is not None:
                raise refused

    def refusal(self, tenant: str, priority: str, who: Who) -> Forbidden | None:
        """Why this caller may not set this priority now."""
        budgets = self._tenants.urgent_budgets()
        if who.is_admin or tenant not in budgets or not is_above_high(priority):
            return None
        now_us = self._context.clock.now_us()
        with self._context.database.read() as c:
            spent = _spent(c, {tenant: budgets[tenant]}, now_us).get(tenant)
            if spent is None:
                return None
            below_us = falls_below_us(c, tenant, spent.budget_hours, now_us)
        wait = "" if below_us is None else f"wait until {instant(below_us)} or later, "
        return Forbidden(
            f"{priority} is above high, and {spent.text}", field="priority",
            cure=f"use priority high, {wait}or ask an administrator to run {spent.command}",
        )  # fmt: skip

    # -- inside a pass ---------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read again which budgets are used up, if that is due. Reads the store, so call it without the lock."""
        now_us, version = self._context.clock.now_us(), self._tenants.version
        if version == self._version and now_us < self._next_us:
            return
        try:
            self._read(self._tenants.urgent_budgets(), now_us)
        except StoreUnavailable:
            return  # what was read last applies until the next pass
        self._version, self._next_us = version, now_us + CHECK_US

    def spent(self, tenant: str) -> SpentBudget | None:
        """The budget of this tenant if it was used up at the last check."""
        return self._spent.get(tenant)

    def lower(self, unit: UnitOfWork) -> None:
        """Lower the pending jobs that the last check found."""
        found, self._to_lower = self._to_lower, {}
        for job_id, (before, then) in found.items():
            row = unit.rows.get(job_id)
            # It may have started or changed in this pass.
            if row is not None and row.state in _PENDING and row.priority == before:
                self._lower(unit, row, then)

    def _read(self, budgets: dict[str, float], now_us: int) -> None:
        if not budgets:
            self._spent, self._to_lower = {}, {}
            return
        with self._context.database.read() as c:
            spent = _spent(c, budgets, now_us)
            self._to_lower = self._find_to_lower(c, spent) if spent else {}
        self._spent = spent

    def _lower(self, unit: UnitOfWork, row: JobRow, priority: str) -> None:
        job = replace(self._context.job(row.id), priority=priority)
        self._context.driver.apply(unit.now_us, JobUpdated(job))
        self._context.jobs[row.id] = job
        unit.change(row.id, priority=priority, core=job_to_dict(job))
        spent = self._spent[row.tenant]
        cause = (
            f"priority {row.priority} was lowered to {priority}, because {spent.text}; an administrator can run "
            f"gpusquad update {row.id} --priority {row.priority} or {spent.command}"
        )
        unit.record(row.id, "warned", cause, data=RESTRICTED)
        note = self._note
        if note is not None and row.spec:
            unit.after_commit.append(lambda: note(row.id, job))

    def _find_to_lower(self, c: Connection, spent: Collection[str]) -> dict[str, tuple[str, str]]:
        above = [row for row in self._context.rows.values() if row.tenant in spent and row.state in _PENDING
                 and is_above_high(row.priority)]  # fmt: skip
        if not above:
            return {}
        admins = {user.name for user in people.users(c) if user.role == "admin"}
        updates = events.updates(c, [row.id for row in above])
        most = {row.id: self._most(row) for row in above}
        return {
            row.id: (row.priority, most[row.id])
            for row in above
            if level_of(row.priority) > level_of(most[row.id]) and not _chosen_by(row, updates.get(row.id, ()), admins)
        }

    def _most(self, row: JobRow) -> str:
        """Highest priority without a budget. A PriorityClass is granted by the cluster."""
        return HIGH if row.spec else highest(HIGH, self._cluster_priority(row.id))


def _spent(c: Connection, budgets: dict[str, float], now_us: int) -> dict[str, SpentBudget]:
    used = used_hours(c, now_us, budgets)
    return {
        tenant: SpentBudget(tenant, used.get(tenant, 0.0), budget)
        for tenant, budget in budgets.items()
        if used.get(tenant, 0.0) >= budget
    }


def _chosen_by(row: JobRow, updates: Iterable[EventRow], users: set[str]) -> bool:
    """Whether one of these users submitted the job with its priority, or set it later. ``updates``: newest first."""
    for event in updates:
        priority = (event.data or {}).get("priority")
        if priority is None:
            continue
        if priority != row.priority:
            return False
        if event.actor in users:
            return True
    # The user of pods is not known: their annotations may name anyone.
    return bool(row.spec) and row.user in users
