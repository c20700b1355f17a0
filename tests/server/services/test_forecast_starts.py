"""Forecast starts in the queue table, computed by PlanForecaster."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.model.job import Job
from gpusquad.model.prediction import Quantiles
from gpusquad.server.answers import QueueEntry
from gpusquad.server.services.queries import plan_forecast
from gpusquad.store import start_forecasts
from gpusquad.store.start_forecasts import StartForecastRow
from tests.server.services.world import SECOND_US, ByEstimate, World

LONG_S = 60.0
HOUR_US = 3600 * SECOND_US


class UncertainPredictor(ByEstimate):
    """Predicts the estimate as the median and twice the estimate as P90."""

    def predict(self, job: Job) -> Quantiles:
        estimate_us = job.estimate_us or 0
        return Quantiles((0.5, 0.9), (estimate_us, 2 * estimate_us), "history")


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, "1x4", mode="predictive-fifo", predictor=UncertainPredictor())
    world.submit(gpus=4, estimate=100)
    world.settle()
    return world


def queue_entries(world: World) -> list[QueueEntry]:
    waiting = [world.submit(gpus=gpus, estimate=10) for gpus in (4, 2, 3)]
    world.settle()
    world.scheduler.queries.pending_summaries(waiting, LONG_S)  # waits for the forecast; the table does not
    return world.scheduler.queries.queue(0, 10)


def test_queue_table_has_the_same_range_as_a_single_query(world: World) -> None:
    entries = queue_entries(world)
    assert len(entries) == 3
    for entry in entries:
        single = world.scheduler.queries.when(entry.job_id)
        assert (entry.eta_us, entry.eta_high_us) == (single.start_us, single.high_us)
        assert entry.eta_us
        assert entry.eta_high_us == 2 * entry.eta_us


def with_past_starts(world: World, late_ratio: int) -> None:
    """Forecasts of 100 s at different hours, whose jobs waited that many times as long."""
    log = world.scheduler.context.starts
    for number in range(30):
        row = StartForecastRow(f"past{number}", "default", number * HOUR_US, number * HOUR_US + 100 * SECOND_US, None)
        log.made(row, "ada")
        log.settle(row.job_id, row.made_us + late_ratio * 100 * SECOND_US)


def test_p90_is_learned_from_past_starts_on_every_page(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_forecast, "RANGE_S", -1.0)  # no second replay is needed
    with_past_starts(world, 9)
    entries = queue_entries(world)
    for entry in entries:
        single = world.scheduler.queries.when(entry.job_id)
        assert (entry.eta_us, entry.eta_high_us) == (single.start_us, single.high_us)
    assert entries[0].eta_us == 100 * SECOND_US
    assert entries[0].eta_high_us == pytest.approx(900 * SECOND_US, rel=0.01)
    world.scheduler.queries.keep_first_forecasts()
    world.settle()
    with world.database.read() as c:
        stored = {row.job_id: row.high_us for row, _ in start_forecasts.latest(c, 10)}
    assert stored == {entry.job_id: entry.eta_high_us for entry in entries}


def test_start_after_the_last_replay_step_has_a_p90_from_past_starts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_forecast, "STEPS", 0)
    with_past_starts(world, 9)
    first = queue_entries(world)[0]
    assert first.eta_us is None
    when = world.scheduler.queries.when(first.job_id)
    assert when.start_us == 100 * SECOND_US
    assert when.high_us == pytest.approx(900 * SECOND_US, rel=0.01)


def test_slow_replay_is_not_repeated_for_the_high_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_forecast, "RANGE_S", -1.0)
    for entry in queue_entries(world):
        assert entry.eta_us is not None
        assert entry.eta_high_us is None
