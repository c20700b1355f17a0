"""A job keeps its place once it has the first reservation, in orders that decide whose turn it is."""

from __future__ import annotations

from collections import Counter

import pytest

from gpusquad.core.cycle import cycle
from gpusquad.core.snapshot.dump import dump_snapshot, load_snapshot
from gpusquad.core.state.accounts import TenantQuota
from gpusquad.core.state.live_updates import update, with_policies
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import grid
from gpusquad.model.job import Job
from gpusquad.model.views import RunTimePrediction
from gpusquad.modes import load_mode
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.simulator import user
from gpusquad.sim.traces import TraceJob
from tests.audit import audit
from tests.strategies import Load, gang, starts_s

S = 1_000_000
HOUR_S = 3600.0
TURNS = ["fairshare", "drf", "fairshare:step_gpu_s=1"]
"""Orders by what tenants use or hold."""
PLANS = ["easy", "easy:backfill=shortest", "easy:reservations=3", "conservative"]


def heavy_head(*later: TraceJob) -> Load:
    """A heavy tenant has used the cluster for two hours. Its next job needs all cards, after one that has six."""
    return Load(grid("1x8"), (
        gang("before", 8, 2 * HOUR_S, tenant="heavy"), gang("ahead", 6, 600, 1, tenant="heavy"),
        gang("head", 8, 100, 2, tenant="heavy"), *later,
    ))  # fmt: skip


def seconds(result: SimulationResult, name: str) -> float:
    start_s = starts_s(result)[name]
    assert start_s is not None
    return start_s


@pytest.mark.parametrize("order", TURNS)
@pytest.mark.parametrize("plan", PLANS)
def test_later_jobs_of_light_tenants_do_not_pass_the_reserved_head(plan: str, order: str):
    """They come after its reservation was made, and would all be ahead of it by usage."""
    light = [gang(f"light{i:03}", 4, 1200, 7210 + i, tenant=f"t{i % 5}") for i in range(60)]
    result = heavy_head(*light).run(plan, order, forecast=user, on_cycle=audit)
    assert seconds(result, "head") == 2 * HOUR_S + 600


@pytest.mark.parametrize("order", TURNS)
def test_liars_of_light_tenants_delay_the_reserved_head_once(order: str):
    light = [gang(f"light{i:03}", 2, 1200, 7210 + i, estimate=300, tenant=f"t{i % 5}") for i in range(60)]
    result = heavy_head(*light).run("easy", order, forecast=user, on_cycle=audit)
    assert seconds(result, "head") <= 2 * HOUR_S + 600 + 900 + 10
    assert sum(seconds(result, one.job.id) < seconds(result, "head") for one in light) == 1


def test_higher_class_passes_a_reserved_head_and_an_equal_one_does_not():
    """The order by class, where a right that an administrator grants goes before a reservation."""
    jobs = (gang("ahead", 6, 600), gang("head", 8, 100, 1), gang("equal", 8, 50, 2),
            gang("high", 8, 50, 3, priority="high"))  # fmt: skip
    starts = starts_s(Load(grid("1x8"), jobs).run("easy", "urgent", forecast=user))
    assert sorted(["head", "equal", "high"], key=lambda name: starts[name] or 0) == ["high", "head", "equal"]


@pytest.mark.parametrize("order", TURNS)
def test_next_reservation_goes_to_the_light_tenant(order: str):
    """A heavy tenant always has wide jobs in the queue. A job of another tenant waits for one of them at most."""
    heavy = [gang(f"heavy{i:03}", 8, 600, tenant="heavy") for i in range(40)]
    light = [gang(f"light{i}", 8, 60, 700 + 3000 * i, tenant="light") for i in range(6)]
    result = Load(grid("1x8"), (*heavy, *light)).run("easy", order, forecast=user, on_cycle=audit)
    for one in light:
        assert seconds(result, one.job.id) - one.job.submitted_us / S <= 2 * 600 + 60


@pytest.mark.parametrize(("weight", "part"), [(1.0, 0.5), (3.0, 0.75)])
def test_shares_over_a_week_follow_the_weights(weight: float, part: float):
    """Two tenants always have jobs in the queue: one wide gangs, the other jobs of one card."""
    wide = [gang(f"w{i:03}", 8, 3 * HOUR_S, tenant="heavy") for i in range(60)]
    small = [gang(f"s{i:04}", 1, 2 * HOUR_S, i, tenant="light") for i in range(700)]
    policies = make_policies(load_mode("fair").order, "easy", tenants=(TenantQuota("light", weight=weight),))
    result = Load(grid("1x8"), (*wide, *small)).run(policies=policies, forecast=user)
    used: Counter[str] = Counter()
    week_us = round(7 * 24 * HOUR_S * S)
    for o in result.outcomes:
        for span in o.spans:
            used[o.job.tenant] += o.job.gpus * max(0, min(span.ended_us, week_us) - span.started_us)
    assert used["light"] / (used["light"] + used["heavy"]) == pytest.approx(part, abs=0.03)


# -- the state -----------------------------------------------------------------------------------------------------


def waiting_head(order: str = "fairshare") -> SchedulerState:
    """The head of the heavy tenant holds the reservation, and a job of a light one has come later."""
    state = SchedulerState(grid("1x8"), make_policies(order, "easy"))
    for name, gpus, tenant in (("before", 8, "heavy"), ("head", 8, "heavy")):
        state.enqueue(job(name, gpus, tenant), RunTimePrediction(round(HOUR_S) * S, round(HOUR_S) * S))
    cycle(state, 0)
    cycle(state, round(0.9 * HOUR_S) * S)
    state.enqueue(job("light", 8, "light", 10), RunTimePrediction(S, S))
    cycle(state, round(0.9 * HOUR_S) * S + 1)
    return state


def job(name: str, gpus: int, tenant: str, at_s: int = 0) -> Job:
    return gang(name, gpus, 1, at_s, tenant=tenant).job


def in_order(state: SchedulerState) -> list[str]:
    return [waiting.job.id for waiting in state.queue]


def test_place_survives_a_copy_a_snapshot_and_other_policies_of_turns():
    state = waiting_head()
    assert in_order(state) == ["head", "light"]
    for other in (load_snapshot(dump_snapshot(state)), with_policies(state, make_policies("drf", "easy"))):
        cycle(other, other.now_us + S)
        assert in_order(other) == ["head", "light"]


def test_head_by_request_keeps_its_place_when_turns_come_into_force():
    state = with_policies(waiting_head("fifo"), make_policies("fairshare", "easy"))
    cycle(state, state.now_us + S)
    assert in_order(state) == ["head", "light"]


def test_orders_about_jobs_go_on_to_decide():
    state = with_policies(waiting_head(), make_policies("sjf", "easy"))
    assert in_order(state) == ["light", "head"]


def test_changed_job_keeps_its_place_unless_its_tenant_changes():
    state = waiting_head()
    update(state, gang("head", 8, 1, tenant="heavy", app="renamed").job, None)
    cycle(state, state.now_us)
    assert in_order(state) == ["head", "light"]
    update(state, gang("head", 8, 1, tenant="other").job, None)
    assert "head" not in state.places_us


def test_job_that_starts_has_no_place_when_it_comes_back():
    state = waiting_head()
    state.finish("before")
    cycle(state, state.now_us)
    assert "head" in state.runs
    assert not set(state.places_us) & {"head"}
