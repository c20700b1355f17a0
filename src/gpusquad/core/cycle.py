"""One decision cycle: snapshot, admit, order, plan, place, decide."""

from __future__ import annotations

from gpusquad.core.board import Board
from gpusquad.core.preempt import preempt
from gpusquad.core.state import State
from gpusquad.model.decision import Decision
from gpusquad.model.job import Job


def cycle(state: State, now_us: int) -> list[Decision]:
    """What to do now. The state already reflects the decisions when they are returned."""
    state.now_us = now_us
    extend_overdue(state)
    state.resort()
    hold_over_limit(state)
    board = Board(state)
    state.policies.plan.walk(board)
    board.decisions.extend(preempt(state))
    board.finish()
    return board.decisions


def extend_overdue(state: State) -> None:
    """Who runs past its prediction is believed to need as long again; promises that counted on it are remade."""
    for run in state.runs.overdue(state.now_us):
        passed = state.now_us - run.started_us
        longer = max(run.forecast.high_us, 2 * passed)
        state.move_end(run.job.id, run.started_us + longer, f"{run.job.id} runs longer than predicted")


def hold_over_limit(state: State) -> None:
    """Tenants and lanes at their limit wait without standing in anybody's way."""
    if not state.has_limits:
        return
    for waiting in state.queue:
        blocked = over_limit(state, waiting.job) is not None
        if blocked != waiting.blocked:
            waiting.blocked = blocked
            state.unsettle()


def over_limit(state: State, job: Job) -> tuple[str, str, int, int] | None:
    """Which limit the gang would break: (kind, name, held, limit)."""
    least = job.gang.least_gpus
    tenant = state.accounts.tenant(job.tenant)
    held = state.accounts.of(job.tenant).gpus
    if tenant.limit_gpus is not None and held + least > tenant.limit_gpus:
        return ("tenant", tenant.name, held, tenant.limit_gpus)
    lane = state.lane(job)
    limit = int(lane.limit_ratio * len(state.space.fixed.card_ids))
    held = state.accounts.lane_gpus.get(lane.name, 0)
    if lane.limit_ratio < 1 and held + least > limit:
        return ("lane", lane.name, held, limit)
    return None
