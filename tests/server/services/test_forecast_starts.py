"""Forecast starts in the queue table, computed by PlanForecaster."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.model.job import Job
from gpusquad.model.prediction import Quantiles
from gpusquad.server.answers import QueueEntry
from gpusquad.server.services.queries import plan_forecast
from tests.server.services.world import ByEstimate, World

LONG_S = 60.0


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


def test_slow_replay_is_not_repeated_for_the_high_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_forecast, "RANGE_S", -1.0)
    for entry in queue_entries(world):
        assert entry.eta_us is not None
        assert entry.eta_high_us is None
