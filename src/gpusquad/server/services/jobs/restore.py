"""Restores the scheduler after a restart, from the store and from what the engine finds."""

from __future__ import annotations

from gpusquad.core.driver import Driver
from gpusquad.core.ports import CarryOut, GangAdopted, JobSubmitted
from gpusquad.core.state.policies import Policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.transitions import JobState
from gpusquad.model.cluster import Cluster
from gpusquad.model.interference import Rate
from gpusquad.model.units import US_PER_S
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.holds import Holds
from gpusquad.server.services.jobs.outcomes import ON_CARDS, STOP_REQUESTED
from gpusquad.server.services.runtime.records import forecast_of, past_of, placement_of
from gpusquad.store import attempts, forecasts, jobs, promises
from gpusquad.store.jobs import JobRow

_HALF_LIVES = 8
"""Older usage counts less than half a percent."""


def restore(context: SchedulerContext, cluster: Cluster, policies: Policies, carry_out: CarryOut, holds: Holds,
            rate: Rate | None = None) -> list[tuple[str, int]]:  # fmt: skip
    """Fill the context from the store. Returns the attempts to ask the engine about."""
    with context.database.read() as connection:
        rows = jobs.unfinished(connection)
        made = forecasts.open_promises(connection) | promises.open_promises(connection)
        since_us = promises.open_since(connection)
    state = SchedulerState(cluster, policies, rate=rate)
    state.now_us, state.resizes = context.clock.now_us(), False
    context.driver = Driver(state, carry_out)
    _restore_usage(context)
    recovered: list[tuple[str, int]] = []
    for row in rows:
        context.rows[row.id] = row
        if JobState(row.state) in ON_CARDS:
            recovered.append((row.id, row.attempt))
            context.peaks.found(row.id, row.attempt)
            _put_back(context, row)
    for row in rows:
        if row.state == JobState.PENDING:
            context.driver.apply(state.now_us, JobSubmitted(context.job(row.id), forecast_of(row), past_of(row)))
            if row.id in made and row.id in state.queue:
                state.committed_us[row.id] = state.first_reserved_us[row.id] = made[row.id]
        elif row.state == JobState.HELD:
            holds.watch(row)
    first = next((job_id for job_id in since_us if job_id in state.queue), None)
    if first is not None:
        state.keep_place(first, since_us[first])
    _settle_dependencies(context, holds)
    _recall_claims(context)
    return recovered


def _restore_usage(context: SchedulerContext) -> None:
    """Recent usage of tenants, by which fair share orders. What running gangs have used so far is a part of it."""
    accounts, now_us = context.state.accounts, context.state.now_us
    day_us, since_us = accounts.half_life_us // 7, now_us - _HALF_LIVES * accounts.half_life_us
    with context.database.read() as connection:
        for used in attempts.usage_by_end(connection, since_us, now_us, day_us):
            accounts.add_past(used.tenant, used.gpu_s * US_PER_S, used.mean_us, now_us)


def _put_back(context: SchedulerContext, row: JobRow) -> None:
    """Adopt the gang on its cards. If they no longer exist, the engine ends it and it is requeued."""
    job = context.job(row.id)
    placement = placement_of(row.placement, job, context.fixed) if row.placement else None
    if placement is None:
        return
    started_us = row.started_us if row.started_us is not None else context.state.now_us
    context.driver.apply(
        context.state.now_us,
        GangAdopted(job, forecast_of(row), placement, min(started_us, context.state.now_us), past_of(row)),
    )
    context.state.runs[row.id].leaving = JobState(row.state) in STOP_REQUESTED


def _settle_dependencies(context: SchedulerContext, holds: Holds) -> None:
    """Apply dependencies that ended before the job was queued: the service may have stopped in between."""
    held = [row for row in context.rows.values() if row.after]
    dependencies = {dependency["job"] for row in held for dependency in row.after} - context.rows.keys()
    with context.database.read() as connection:
        over = {job_id: row.state for job_id in dependencies if (row := jobs.get(connection, job_id)) is not None}
    for row in held:
        states = {dependency["job"]: over[dependency["job"]] for dependency in row.after if dependency["job"] in over}
        if states:
            context.loop.post(lambda job_id=row.id, states=states: holds.settle(context.unit, states, job_id))


def _recall_claims(context: SchedulerContext) -> None:
    """Restore the claims of jobs for which others are being preempted."""
    for row in context.rows.values():
        claimant = (row.stop or {}).get("for_job") or ""
        if row.state == JobState.PREEMPTING and claimant in context.state.queue:
            context.state.claims[claimant] = str((row.stop or {}).get("cause", ""))
