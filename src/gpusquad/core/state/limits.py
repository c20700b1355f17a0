"""Limits of tenants and lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpusquad.model.job import Job

if TYPE_CHECKING:
    from gpusquad.core.state.state import SchedulerState


def headroom(state: SchedulerState, job: Job) -> int:
    """Number of GPUs that its tenant and its lane may still take."""
    most = len(state.space.fixed.card_ids)
    if not state.has_limits:
        return most
    lane = state.lane(job)
    in_lane = int(lane.limit_ratio * most) - state.accounts.lane_gpus.get(lane.name, 0)
    limit = state.accounts.tenant(job.tenant).limit_gpus
    of_tenant = most if limit is None else limit - state.accounts.of(job.tenant).gpus
    return min(in_lane, of_tenant)


def over_limit(state: SchedulerState, job: Job) -> tuple[str, str, int, int] | None:
    """The limit that the gang would exceed: (kind, name, held, limit)."""
    least = job.gang.min_gpus
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
