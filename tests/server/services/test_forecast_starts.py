"""Forecasts of starts for the table of the queue."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.model.job import Job
from gpusquad.model.prediction import Quantiles
from gpusquad.server.answers import QueueEntry
from gpusquad.server.services.queries import plan_forecast
from tests.server.services.world import ByEstimate, World

LONG_S = 60.0


class Doubtful(ByEstimate):
    """One of ten runs needs twice its estimate."""

    def predict(self, job: Job) -> Quantiles:
        estimate_us = job.estimate_us or 0
        return Quantiles((0.5, 0.9), (estimate_us, 2 * estimate_us), "history")


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, "1x4", mode="predictive-fifo", predictor=Doubtful())
    world.submit(gpus=4, estimate=100)
    world.settle()
    return world


def table(world: World) -> list[QueueEntry]:
    waiting = [world.submit(gpus=gpus, estimate=10) for gpus in (4, 2, 3)]
    world.settle()
    world.scheduler.queries.pending_summaries(waiting, LONG_S)  # waits for the forecast, which the table does not
    return world.scheduler.queries.queue(0, 10)


def test_the_table_tells_the_same_range_as_when(world: World) -> None:
    entries = table(world)
    assert len(entries) == 3
    for entry in entries:
        alone = world.scheduler.queries.when(entry.job_id)
        assert (entry.eta_us, entry.eta_high_us) == (alone.start_us, alone.high_us)
        assert entry.eta_us
        assert entry.eta_high_us == 2 * entry.eta_us


def test_a_replay_that_takes_long_is_not_made_twice(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_forecast, "RANGE_S", -1.0)
    for entry in table(world):
        assert entry.eta_us is not None
        assert entry.eta_high_us is None
