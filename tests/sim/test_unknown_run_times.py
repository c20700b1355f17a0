"""A fresh service with jobs of which nobody said how long they run: small ones use idle cards beside a job that waits
for all of them, and delay it by at most one overrun."""

from __future__ import annotations

import pytest

from gpusquad.model.cluster import grid
from gpusquad.model.job import Job, Request, Role
from gpusquad.modes import load_mode
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import Scenario, simulate
from gpusquad.sim.traces import TraceJob
from tests.strategies import starts_s

S = 1_000_000


def unknown(name: str, cards: int, run_s: float, at_s: float, **rest) -> TraceJob:
    job = Job(name, (Role("worker", cards, Request(gpus=1)),), round(at_s * S), **rest)
    return TraceJob(job, round(run_s * S))


def run(*jobs: TraceJob) -> SimulationResult:
    chosen = load_mode("standard")
    feed = PredictorFeed(chosen.predictor, chosen.uses)
    return simulate(Scenario(grid("1x8"), jobs, chosen.policies(), **feed.parts()))


AHEAD, HEAD = unknown("ahead", 6, 3600, 0), unknown("head", 8, 600, 1)


def test_small_job_uses_idle_cards_at_once():
    result = run(AHEAD, HEAD, *(unknown(f"small{i}", 2, 60, 2 + i) for i in range(3)))
    starts = starts_s(result)
    assert (starts["small0"], starts["small1"], starts["small2"]) == (2, 62, 122)
    assert starts["head"] == 3600


@pytest.mark.parametrize("small_s", [7200, 86_400])
def test_head_is_late_by_at_most_the_rest_of_one_small_job(small_s: float):
    starts = starts_s(run(AHEAD, HEAD, *(unknown(f"small{i}", 2, small_s, 2 + i) for i in range(3))))
    assert starts["small0"] == 2
    assert starts["head"] == 2 + small_s
    assert starts["small1"] >= starts["head"] <= starts["small2"]


def test_no_job_of_hours_is_backfilled_on_a_guess():
    """Nothing is known of the runs ahead. A job of five hours behind the head would delay it by hours."""
    ahead, head = unknown("ahead", 6, 60, 0), unknown("head", 8, 60, 1)
    later = [unknown(f"short{i}", 2, 60, 3 + i, estimate_us=60 * S) for i in range(100)]
    starts = starts_s(run(ahead, head, unknown("long", 2, 20_000, 2, estimate_us=20_000 * S), *later))
    assert starts["head"] <= 60 + 2 * 60
    assert starts["long"] > starts["head"]


def test_many_small_jobs_of_many_tenants_do_not_delay_the_head_further():
    """The first one outlives what is usual. No other starts before the head, whoever submits it."""
    later = [unknown(f"small{i}", 2, 86_400, 2 + i, tenant=f"t{i}", user=f"u{i}") for i in range(50)]
    starts = starts_s(run(AHEAD, HEAD, *later))
    assert starts["head"] == 2 + 86_400
    assert [name for name, start in starts.items() if start < 2 + 86_400] == ["ahead", "small0"]
