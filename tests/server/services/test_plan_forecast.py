"""PlanForecaster: predicted ends, reservations and planned starts of the whole queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.predict.start_calibration import StartRange
from gpusquad.server.services.queries.plan_forecast import PlanForecaster, planned
from tests.server.services.world import SECOND_US, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "2x4", mode="predictive-fifo")


def forecaster_of(world: World) -> PlanForecaster:
    return PlanForecaster(world.scheduler.context)


def test_forecast_is_empty_without_jobs(world: World) -> None:
    forecaster = forecaster_of(world)
    world.settle()
    assert (forecaster.ends(), forecaster.reservations()) == ({}, [])
    plan = forecaster.plan()
    assert plan is not None
    assert (plan.runs, plan.unknown) == ((), 0)


def test_ends_reservations_and_starts_equal_those_of_single_queries(world: World) -> None:
    running = world.submit(gpus=4, count=2, estimate=100)
    world.settle()
    waiting = [world.submit(gpus=gpus, estimate=10, name=f"w{gpus}") for gpus in (4, 2, 1)]
    world.settle()
    forecaster = forecaster_of(world)
    end = forecaster.ends()[running]
    assert end == world.scheduler.queries.when(running).end
    assert end.mid_us == 100 * SECOND_US
    [reservation] = [found for found in forecaster.reservations() if found.owner.id == waiting[0]]
    assert reservation.start_us == world.scheduler.queries.reservations()[waiting[0]].start_us
    plan = forecaster.plan()
    assert plan is not None
    assert [run.owner.id for run in plan.runs] == waiting
    for run in plan.runs:
        single = world.scheduler.queries.when(run.owner.id)
        assert (run.start_us, run.high_us) == (single.start_us, single.high_us)
        assert run.end_us == run.start_us + 10 * SECOND_US
        assert len(run.cards) == run.owner.gpus
    taken = [card for run in plan.runs for card in run.cards]
    assert len(taken) == len(set(taken)), "they run at the same time on different cards"


def test_forecast_is_cached_and_does_not_change_the_queue(world: World) -> None:
    world.submit(gpus=4, count=2, estimate=100)
    world.settle()
    world.submit(gpus=4)
    world.settle()
    before = [entry.job_id for entry in world.scheduler.queries.queue()]
    forecaster = forecaster_of(world)
    assert forecaster.plan() is forecaster.plan()
    assert [entry.job_id for entry in world.scheduler.queries.queue()] == before


def test_plan_is_not_computed_for_a_too_long_queue(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusquad.server.services.queries.plan_forecast.MAX_PENDING", 1)
    world.submit(gpus=4, count=2, estimate=100)
    world.settle()
    for _ in range(2):
        world.submit(gpus=4)
    world.settle()
    assert forecaster_of(world).plan() is None


def test_jobs_beyond_the_replayed_steps_are_counted_as_unknown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusquad.server.services.queries.plan_forecast.STEPS", 1)
    for _ in range(4):
        world.submit(gpus=4, count=2, estimate=100)
    world.settle()
    plan = planned(world.scheduler.context.copy(), StartRange())
    assert (len(plan.runs), plan.unknown) == (1, 2)
