"""Progress moves the ends of what runs, and with them the starts of those who wait."""

from __future__ import annotations

import pytest

from gpusquad.model.prediction import Quantiles, certain
from gpusquad.predict.progress import ProgressPredictor
from gpusquad.server.services.cluster.progress_tracking import MAX_POINTS
from gpusquad.store import events
from tests.server.services.world import SECOND_US, World


def hear(world: World, job_id: str, step: int, total: int | None = 1000) -> None:
    """The agent's look at this second."""
    now_us = world.clock.at_us
    run = {"job": job_id, "attempt": world.scheduler.row(job_id).attempt, "step": step, "total": total,
           "progress_at_us": now_us, "last_output_us": now_us, "cpu_ratio": 1.0}  # fmt: skip
    world.scheduler.watcher.hear({"kind": "samples", "at_us": now_us, "cards": [], "runs": [run]})


def run_for(world: World, job_id: str, seconds: int, steps_per_s: float) -> None:
    for _ in range(seconds):
        world.clock.at_us += SECOND_US
        hear(world, job_id, int(world.clock.at_us / SECOND_US * steps_per_s))
        world.settle()


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path, "1x2", make_progress_model=ProgressPredictor)


def test_a_slow_run_moves_those_who_wait(world: World) -> None:
    runs, waits = world.submit(name="r", gpus=2, estimate=100), world.submit(gpus=2, estimate=10)
    world.settle()
    assert world.scheduler.queries.when(waits).start_us == 100 * SECOND_US
    run_for(world, runs, 60, 1000 / 400)
    end = world.scheduler.queries.when(runs).end
    assert end is not None
    assert end.source == "progress"
    assert end.mid_us == pytest.approx(400 * SECOND_US, rel=0.1)
    assert world.scheduler.queries.when(waits).start_us == end.mid_us
    with world.database.read() as c:
        told = [row.cause for row in events.of_job(c, waits) if row.kind == "eta_moved"]
    assert told
    assert f"r ({runs}) of ada needs longer than predicted, by its progress: expected " in told[0]


def test_a_run_that_is_faster_than_said_brings_them_forward(world: World) -> None:
    runs, waits = world.submit(gpus=2, estimate=1000), world.submit(gpus=2, estimate=10)
    world.settle()
    run_for(world, runs, 60, 1000 / 400)
    start_us = world.scheduler.queries.when(waits).start_us
    assert start_us is not None
    assert start_us == pytest.approx(400 * SECOND_US, rel=0.1)


def test_steps_without_a_total_move_nothing(world: World) -> None:
    runs = world.submit(gpus=2, estimate=100)
    world.settle()
    for step in range(30):
        world.clock.at_us += SECOND_US
        hear(world, runs, step, None)
        world.settle()
    end = world.scheduler.queries.when(runs).end
    assert end is not None
    assert (end.mid_us, end.source) == (100 * SECOND_US, "user")


def test_after_a_restart_it_goes_on_with_what_the_run_told_before(world: World) -> None:
    runs = world.submit(gpus=2, estimate=100)
    world.settle()
    run_for(world, runs, 90, 1000 / 400)
    world.scheduler = world.make()
    end = world.scheduler.queries.when(runs).end
    assert end is not None
    assert end.source == "user"
    run_for(world, runs, 1, 1000 / 400)  # one look is enough
    end = world.scheduler.queries.when(runs).end
    assert end is not None
    assert end.source == "progress"
    assert end.mid_us == pytest.approx(400 * SECOND_US, rel=0.1)


def test_what_is_kept_of_a_run_is_bounded_and_reaches_back_to_its_start(world: World) -> None:
    runs = world.submit(gpus=2, estimate=100)
    world.settle()
    run_for(world, runs, 300, 1)
    points = world.scheduler.row(runs).progress["points"]
    assert points[0] == [SECOND_US, 1]
    assert points[-1][0] > 280 * SECOND_US
    assert MAX_POINTS / 3 < len(points) <= MAX_POINTS
    assert points == sorted(points)
    assert all(at_us == step * SECOND_US for at_us, step in points)


def test_reports_of_another_count_are_not_mixed_with_the_last(world: World) -> None:
    runs = world.submit(gpus=2, estimate=100)
    world.settle()
    for at_s, (step, total) in enumerate([(5, 10), (10, 10), (1, 500), (2, 500)]):
        world.clock.at_us = (20 + at_s) * SECOND_US
        hear(world, runs, step, total)
    assert world.scheduler.watcher._progress.points(runs, 0) == [[22 * SECOND_US, 1], [23 * SECOND_US, 2]]


def test_another_attempt_does_not_take_over_what_the_first_told(world: World) -> None:
    runs = world.submit(gpus=2, estimate=100, retries={"count": 1, "backoff": 0})
    world.settle()
    run_for(world, runs, 60, 1)
    world.engine.end(runs, 0, "failed")
    world.settle()
    world.clock.at_us += 100 * SECOND_US
    world.settle()
    assert (world.state(runs), world.scheduler.row(runs).progress) == ("running", None)
    hear(world, runs, 1)
    world.clock.at_us += 11 * SECOND_US
    hear(world, runs, 2)
    world.settle()
    assert [step for _, step in world.scheduler.row(runs).progress["points"]] == [1, 2]


class Scripted:
    """Counts how often it is asked."""

    asked = 0
    prior: Quantiles | None = None

    def see(self, at_us: int, step: int, total: int | None) -> None:
        if step == 13:
            raise ValueError("unlucky")

    def remaining(self, now_us: int, prior: Quantiles | None, started_us: int) -> Quantiles | None:
        Scripted.asked += 1
        Scripted.prior = prior
        return certain(500 * SECOND_US, "progress")


def test_it_is_asked_now_and_then_and_told_what_was_believed(tmp_path) -> None:
    world = World(tmp_path, "1x2", make_progress_model=Scripted)
    runs = world.submit(gpus=2, estimate=100)
    world.settle()
    Scripted.asked = 0
    run_for(world, runs, 35, 0.1)
    assert 3 <= Scripted.asked <= 4
    assert Scripted.prior == certain(100 * SECOND_US, "user")
    end = world.scheduler.queries.when(runs).end
    assert end is not None
    assert end.mid_us > 500 * SECOND_US


def test_one_that_fails_and_one_that_is_over_are_followed_no_more(tmp_path) -> None:
    world = World(tmp_path, "1x2", make_progress_model=Scripted)
    first, second = world.submit(gpus=1, estimate=100), world.submit(gpus=1, estimate=100)
    world.settle()
    hear(world, first, 13)
    hear(world, second, 1)
    following = world.scheduler.watcher._progress
    assert list(following._followers) == [(second, 0)]
    world.engine.end(second, 0)
    world.settle()
    world.clock.at_us += 20 * SECOND_US
    hear(world, first, 13)
    assert not following._followers
