"""Scheduler states with a few jobs, and plan policies, for the tests of reasons and forecasts."""

from hypothesis import strategies as st

from gpusquad.core.cycle import cycle
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import Cluster, MaintenanceWindow
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction

HOUR = 3600 * US_PER_S
PLAN_WITH_PATIENCE = "easy:backfill=merit,patience_s=0.002,wide=0.5,aged_s=0.005"
plans = st.sampled_from(["easy", "easy:backfill=shortest", "conservative", "none", PLAN_WITH_PATIENCE])


def state_of(
    cluster: Cluster, plan: str = "easy", windows: tuple[MaintenanceWindow, ...] = (), **rest
) -> SchedulerState:
    return SchedulerState(cluster, make_policies("fifo", plan, "binpack", **rest), windows)


def job(name: str, request: Request, count: int = 1, **rest) -> Job:
    return Job(name, (Role("worker", count, request),), **rest)


def submit(state: SchedulerState, *jobs: Job, hours: float = 1) -> None:
    for each in jobs:
        state.enqueue(each, RunTimePrediction(round(hours * HOUR), round(hours * HOUR)))
    cycle(state, state.now_us)
