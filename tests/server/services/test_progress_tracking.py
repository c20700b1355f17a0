"""Progress of running jobs: it changes their predicted ends and the starts of pending jobs."""

from __future__ import annotations

import pytest

from gpusquad.core.ports import AttemptEnded
from gpusquad.model.prediction import Quantiles, certain
from gpusquad.predict.progress import ProgressPredictor
from gpusquad.server.services.cluster.progress_tracking import MAX_POINTS
from gpusquad.store import events
from tests.server.services.world import SECOND_US, World


def send_sample(world: World, job_id: str, step: int, total: int | None = 1000) -> None:
    """Send a sample with this step, as the agent does."""
    now_us = world.clock.at_us
    run = {"job": job_id, "attempt": world.scheduler.row(job_id).attempt, "step": step, "total": total,
           "progress_at_us": now_us, "last_output_us": now_us, "cpu_ratio": 1.0}  # fmt: skip
    world.scheduler.watcher.hear({"kind": "samples", "at_us": now_us, "cards": [], "runs": [run]})


def run_for(world: World, job_id: str, seconds: int, steps_per_s: float) -> None:
    for _ in range(seconds):
        world.clock.at_us += SECOND_US
        send_sample(world, job_id, int(world.clock.at_us / SECOND_US * steps_per_s))
        world.settle()


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path, "1x2", make_progress_model=ProgressPredictor)


def test_slow_progress_delays_the_forecast_start_of_a_pending_job(world: World) -> None:
    running, pending = world.submit(name="r", gpus=2, estimate=100), world.submit(gpus=2, estimate=10)
    world.settle()
    assert world.scheduler.queries.when(pending).start_us == 100 * SECOND_US
    run_for(world, running, 60, 1000 / 400)
    end = world.scheduler.queries.when(running).end
    assert end is not None
    assert end.source == "progress"
    assert end.mid_us == pytest.approx(400 * SECOND_US, rel=0.1)
    assert world.scheduler.queries.when(pending).start_us == end.mid_us
    with world.database.read() as c:
        causes = [row.cause for row in events.of_job(c, pending) if row.kind == "eta_moved"]
    assert causes
    assert f"r ({running}) of ada needs longer than predicted, by its progress: expected " in causes[0]


def test_fast_progress_brings_the_forecast_start_of_a_pending_job_forward(world: World) -> None:
    running, pending = world.submit(gpus=2, estimate=1000), world.submit(gpus=2, estimate=10)
    world.settle()
    run_for(world, running, 60, 1000 / 400)
    start_us = world.scheduler.queries.when(pending).start_us
    assert start_us is not None
    assert start_us == pytest.approx(400 * SECOND_US, rel=0.1)


def test_steps_without_a_total_do_not_change_the_predicted_end(world: World) -> None:
    running = world.submit(gpus=2, estimate=100)
    world.settle()
    for step in range(30):
        world.clock.at_us += SECOND_US
        send_sample(world, running, step, None)
        world.settle()
    end = world.scheduler.queries.when(running).end
    assert end is not None
    assert (end.mid_us, end.source) == (100 * SECOND_US, "user")


def test_progress_from_before_a_restart_is_used_after_it(world: World) -> None:
    running = world.submit(gpus=2, estimate=100)
    world.settle()
    run_for(world, running, 90, 1000 / 400)
    world.scheduler = world.make()
    end = world.scheduler.queries.when(running).end
    assert end is not None
    assert end.source == "user"
    run_for(world, running, 1, 1000 / 400)  # one sample is enough
    end = world.scheduler.queries.when(running).end
    assert end is not None
    assert end.source == "progress"
    assert end.mid_us == pytest.approx(400 * SECOND_US, rel=0.1)


def test_stored_points_are_bounded_and_reach_back_to_the_start(world: World) -> None:
    running = world.submit(gpus=2, estimate=100)
    world.settle()
    run_for(world, running, 300, 1)
    points = world.scheduler.row(running).progress["points"]
    assert points[0] == [SECOND_US, 1]
    assert points[-1][0] > 280 * SECOND_US
    assert MAX_POINTS / 3 < len(points) <= MAX_POINTS
    assert points == sorted(points)
    assert all(at_us == step * SECOND_US for at_us, step in points)


def test_points_restart_when_the_total_changes(world: World) -> None:
    running = world.submit(gpus=2, estimate=100)
    world.settle()
    for at_s, (step, total) in enumerate([(5, 10), (10, 10), (1, 500), (2, 500)]):
        world.clock.at_us = (20 + at_s) * SECOND_US
        send_sample(world, running, step, total)
    assert world.scheduler.watcher._progress.points(running, 0) == [[22 * SECOND_US, 1], [23 * SECOND_US, 2]]


def test_next_attempt_starts_without_the_progress_of_the_first(world: World) -> None:
    running = world.submit(gpus=2, estimate=100, retries={"count": 1, "backoff": 0})
    world.settle()
    run_for(world, running, 60, 1)
    world.engine.end(running, 0, "failed")
    world.settle()
    world.clock.at_us += 100 * SECOND_US
    world.settle()
    assert (world.state(running), world.scheduler.row(running).progress) == ("running", None)
    send_sample(world, running, 1)
    world.clock.at_us += 11 * SECOND_US
    send_sample(world, running, 2)
    world.settle()
    assert [step for _, step in world.scheduler.row(running).progress["points"]] == [1, 2]


class FakeProgressModel:
    """Counts its predictions and keeps the last prior."""

    calls = 0
    prior: Quantiles | None = None

    def see(self, at_us: int, step: int, total: int | None) -> None:
        if step == 13:
            raise ValueError("unlucky")

    def remaining(self, now_us: int, prior: Quantiles | None, started_us: int) -> Quantiles | None:
        FakeProgressModel.calls += 1
        FakeProgressModel.prior = prior
        return certain(500 * SECOND_US, "progress")


def test_model_is_called_periodically_with_the_prior_prediction(tmp_path) -> None:
    world = World(tmp_path, "1x2", make_progress_model=FakeProgressModel)
    running = world.submit(gpus=2, estimate=100)
    world.settle()
    FakeProgressModel.calls = 0
    run_for(world, running, 35, 0.1)
    assert 3 <= FakeProgressModel.calls <= 4
    assert FakeProgressModel.prior == certain(100 * SECOND_US, "user")
    end = world.scheduler.queries.when(running).end
    assert end is not None
    assert end.mid_us > 500 * SECOND_US


def test_failed_models_and_finished_runs_are_not_followed(tmp_path) -> None:
    world = World(tmp_path, "1x2", make_progress_model=FakeProgressModel)
    first, second = world.submit(gpus=1, estimate=100), world.submit(gpus=1, estimate=100)
    world.settle()
    send_sample(world, first, 13)
    send_sample(world, second, 1)
    tracking = world.scheduler.watcher._progress
    assert list(tracking._followers) == [(second, 0)]
    world.engine.end(second, 0)
    world.settle()
    world.clock.at_us += 20 * SECOND_US
    send_sample(world, first, 13)
    assert not tracking._followers


@pytest.mark.parametrize(
    ("before", "steps", "shown"),
    [
        (None, (10, 10), (10, 10)),
        ((1, 10), (10, 10), (10, 10)),
        ((900, 1000), (20, 20), (900, 1000)),
        ((1, 10), None, (1, 10)),
    ],
)
def test_job_that_succeeded_shows_the_last_step_of_its_output(world: World, before, steps, shown) -> None:
    job_id = world.submit(name="steps")
    world.settle()
    if before is not None:
        step, total = before
        record = {"step": step, "total": total, "ratio": step / total, "at_us": 1}
        world.scheduler.context.loop.post(lambda: world.scheduler.context.unit.change(job_id, progress=record) and None)
        world.settle()
    world.engine.running.pop((job_id, 0))
    world.engine._send(AttemptEnded(job_id, 0, "succeeded", "", steps=steps))
    world.settle()
    row = world.scheduler.row(job_id)
    assert row.state == "succeeded"
    assert row.progress is not None
    assert (row.progress["step"], row.progress["total"]) == shown
