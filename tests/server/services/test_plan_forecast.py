"""The plan as a picture: ends, promises and planned starts, as the scheduler itself tells them one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.server.services.queries.plan_forecast import PlanForecaster, planned
from tests.server.services.world import SECOND_US, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "2x4", mode="predictive-fifo")


def forecaster_of(world: World) -> PlanForecaster:
    return PlanForecaster(world.scheduler.context)


def test_nothing_waits_and_nothing_runs(world: World) -> None:
    ahead = forecaster_of(world)
    world.settle()
    assert (ahead.ends(), ahead.reservations()) == ({}, [])
    plan = ahead.plan()
    assert plan is not None
    assert (plan.runs, plan.unknown) == ((), 0)


def test_ends_promises_and_starts_are_those_that_the_scheduler_tells(world: World) -> None:
    running = world.submit(gpus=4, count=2, estimate=100)
    world.settle()
    waiting = [world.submit(gpus=gpus, estimate=10, name=f"w{gpus}") for gpus in (4, 2, 1)]
    world.settle()
    ahead = forecaster_of(world)
    end = ahead.ends()[running]
    assert end == world.scheduler.queries.when(running).end
    assert end.mid_us == 100 * SECOND_US
    [promised] = [one for one in ahead.reservations() if one.owner.id == waiting[0]]
    assert promised.start_us == world.scheduler.queries.reservations()[waiting[0]].start_us
    plan = ahead.plan()
    assert plan is not None
    assert [one.owner.id for one in plan.runs] == waiting
    for one in plan.runs:
        alone = world.scheduler.queries.when(one.owner.id)
        assert (one.start_us, one.high_us) == (alone.start_us, alone.high_us)
        assert one.end_us == one.start_us + 10 * SECOND_US
        assert len(one.cards) == one.owner.gpus
    taken = [card for one in plan.runs for card in one.cards]
    assert len(taken) == len(set(taken)), "they run at the same time, on cards of their own"


def test_asking_changes_nothing_and_is_not_done_anew_at_once(world: World) -> None:
    world.submit(gpus=4, count=2, estimate=100)
    world.settle()
    world.submit(gpus=4)
    world.settle()
    before = [entry.job_id for entry in world.scheduler.queries.queue()]
    ahead = forecaster_of(world)
    assert ahead.plan() is ahead.plan()
    assert [entry.job_id for entry in world.scheduler.queries.queue()] == before


def test_a_queue_that_is_too_long_is_not_replayed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusquad.server.services.queries.plan_forecast.MAX_PENDING", 1)
    world.submit(gpus=4, count=2, estimate=100)
    world.settle()
    for _ in range(2):
        world.submit(gpus=4)
    world.settle()
    assert forecaster_of(world).plan() is None


def test_who_starts_beyond_what_is_looked_at_is_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusquad.server.services.queries.plan_forecast.STEPS", 1)
    for _ in range(4):
        world.submit(gpus=4, count=2, estimate=100)
    world.settle()
    plan = planned(world.scheduler.context.copy())
    assert (len(plan.runs), plan.unknown) == (1, 2)
