"""PredictionRefresh: predictions of pending jobs are updated after their owner's runs and after a change of mode."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from gpusquad.model.job import Job
from gpusquad.model.prediction import PastRun, Quantiles, certain
from gpusquad.predict.base import OnlinePredictor
from gpusquad.server.answers import JobChange, Who
from gpusquad.server.services.jobs import prediction_refresh
from gpusquad.server.services.prediction import training as training_module
from gpusquad.server.services.prediction.predictor import LockedPredictor
from gpusquad.server.services.prediction.training import PredictorTraining
from gpusquad.sim.predictor_feed import MAX_ANEW
from gpusquad.store import run_forecasts
from tests.server.services.world import ADA, SECOND_US, World

BOB = Who("bob", "default", "member")


class LastRunPredictor(OnlinePredictor):
    """The user's estimate before the first run; then the last run time as the median, and twice that as P90."""

    last_us: int | None = None

    def predict(self, job: Job) -> Quantiles:
        if self.last_us is None:
            return certain(job.estimate_us or 5 * SECOND_US, "user")
        values = (self.last_us, 2 * self.last_us, 3 * self.last_us)
        return Quantiles((0.5, 0.9, 0.99), values, "history", 0.5)

    def learn(self, run: PastRun) -> None:
        self.last_us = run.run_us


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path, "1x4", predictor=LastRunPredictor())


def mid_s(world: World, job_id: str) -> tuple[float, float]:
    """Return the predicted median in the core and in the store."""
    row = world.scheduler.row(job_id)
    assert row.forecast is not None
    return world.scheduler._context.state.queue[job_id].prediction.mid_us / SECOND_US, row.forecast[
        "mid_us"
    ] / SECOND_US


def start(world: World, who: Who = ADA, **file) -> str:
    job_id = world.submit(who, **file)
    world.settle()
    return job_id


def end(world: World, job_id: str, after_s: int = 7) -> None:
    world.clock.at_us += after_s * SECOND_US
    world.engine.end(job_id, world.scheduler.row(job_id).attempt)
    world.settle()


# -- when a run has ended ------------------------------------------------------------------------------------------


def test_predictions_of_the_owners_pending_jobs_are_refreshed_after_a_run(world: World) -> None:
    running, _, pending = (start(world, gpus=gpus, estimate=100) for gpus in (1, 3, 4))
    assert mid_s(world, pending) == (100, 100)
    end(world, running)
    assert mid_s(world, pending) == (7, 7)
    forecast = world.scheduler.queries.when(pending).forecast
    assert forecast is not None
    assert (forecast.mid_us, forecast.high_us, forecast.source) == (7 * SECOND_US, 14 * SECOND_US, "history")


def test_stored_forecast_stays_the_prediction_made_at_submission(world: World) -> None:
    running, _, pending = (start(world, gpus=gpus, estimate=100) for gpus in (1, 3, 4))
    end(world, running)
    with world.database.read() as c:
        (made,) = run_forecasts.of_job(c, pending)
    assert (made.made_us, made.source, made.values_us) == (0, "user", [100 * SECOND_US])


def test_predictions_of_other_owners_are_not_refreshed(world: World) -> None:
    running, _ = (start(world, gpus=4, estimate=100) for _ in range(2))
    others = start(world, BOB, gpus=4, estimate=100)
    end(world, running)
    assert mid_s(world, others) == (100, 100)


def test_refreshed_prediction_is_capped_by_the_limit(world: World) -> None:
    running, _, pending = (start(world, gpus=gpus, estimate=100, limit=10) for gpus in (1, 3, 4))
    end(world, running)
    forecast = world.scheduler._context.state.queue[pending].prediction
    assert (forecast.mid_us, forecast.high_us) == (7 * SECOND_US, 10 * SECOND_US)


def test_only_the_oldest_pending_jobs_up_to_the_maximum_are_refreshed(world: World, monkeypatch) -> None:
    assert prediction_refresh.MAX_PER_OWNER == MAX_ANEW  # the simulator must use the same maximum
    monkeypatch.setattr(prediction_refresh, "MAX_PER_OWNER", 2)
    running = start(world, gpus=1, estimate=100)
    start(world, gpus=3, estimate=100)
    waiting = [start(world, gpus=4, estimate=100) for _ in range(3)]
    end(world, running)
    assert [mid_s(world, job_id)[0] for job_id in waiting] == [7, 7, 100]


class PredictorByName(LastRunPredictor):
    """Predicts by the job's name after the first run."""

    def predict(self, job: Job) -> Quantiles:
        if self.last_us is None:
            return super().predict(job)
        return certain({"long": 900, "short": 3}.get(job.name, 50) * SECOND_US, "history", 0.5)


def test_queue_is_reordered_immediately_after_a_refresh(tmp_path) -> None:
    world = World(tmp_path, "1x4", predictor=PredictorByName())
    world.scheduler.policy_service.set({"order": "sjf"}, ADA)
    running = start(world, gpus=4, estimate=5)
    long, short = world.submit(name="long", gpus=4, estimate=10), world.submit(name="short", gpus=4, estimate=20)
    world.settle()
    assert [entry.job_id for entry in world.scheduler.queries.queue()] == [long, short]
    end(world, running)
    assert (world.state(short), world.state(long)) == ("running", "pending")


def test_refreshed_prediction_survives_a_restart(world: World) -> None:
    running, _, pending = (start(world, gpus=gpus, estimate=100) for gpus in (1, 3, 4))
    end(world, running)
    world.scheduler = world.make()
    assert mid_s(world, pending) == (7, 7)


def test_preempted_job_keeps_the_prediction_of_its_own_run(world: World) -> None:
    """Its own progress and checkpoint are better evidence than the runs of other jobs."""
    world.scheduler.policy_service.set({"preemption": {"by": "priority", "min_run_s": 0}}, ADA)
    low = start(world, gpus=4, priority="low", estimate=100, checkpoint={"every": 10})
    world.clock.at_us += 25 * SECOND_US
    high = start(world, gpus=4, priority="urgent", estimate=10)
    fresh = start(world, gpus=4, priority="low", estimate=10)
    after = start(world, gpus=4, priority="urgent", estimate=10)
    assert [world.state(job_id) for job_id in (low, high, fresh)] == ["pending", "running", "pending"]
    before = mid_s(world, low)
    end(world, high, 3)
    assert world.state(after) == "running"
    assert mid_s(world, low) == before
    assert mid_s(world, fresh) == (3, 3)


# -- from the training thread --------------------------------------------------------------------------------------


def refresh_items(world: World) -> list:
    """Return the items that the training thread would post for all owners now."""
    return list(prediction_refresh.PredictionRefresh(world.scheduler._context).batches(None))


def post_all(world: World, items: list) -> None:
    for item in items:
        world.scheduler._context.loop.post(item)
    world.settle()


@pytest.fixture
def stale(world: World) -> tuple[World, str, str]:
    """A running and a pending job, with a predictor that learned since their submission."""
    running, pending = start(world, gpus=4, estimate=100), start(world, gpus=4, estimate=100)
    world.scheduler._context.predictor.learn(PastRun(world.scheduler._context.job(running), 7 * SECOND_US, 1))
    return world, running, pending


def test_refresh_applies_in_the_next_pass(stale) -> None:
    world, _, pending = stale
    items = refresh_items(world)
    assert mid_s(world, pending) == (100, 100)
    post_all(world, items)
    assert mid_s(world, pending) == (7, 7)


def test_refresh_is_dropped_when_the_job_was_updated_meanwhile(stale) -> None:
    world, _, pending = stale
    items = refresh_items(world)
    world.scheduler._context.predictor.predictor.last_us = None
    world.scheduler.update(pending, JobChange(estimate_us=33 * SECOND_US), ADA)
    post_all(world, items)
    assert mid_s(world, pending) == (33, 33)


def test_refresh_is_dropped_when_the_job_started_meanwhile(stale) -> None:
    world, running, pending = stale
    items = refresh_items(world)
    world.scheduler._context.training.prediction_refresh = None
    end(world, running)
    assert world.state(pending) == "running"
    post_all(world, items)
    assert world.scheduler.row(pending).forecast["mid_us"] == 100 * SECOND_US
    assert world.scheduler._context.state.runs[pending].prediction.mid_us == 100 * SECOND_US


def test_refresh_is_dropped_when_the_job_was_cancelled_meanwhile(stale) -> None:
    world, _, pending = stale
    items = refresh_items(world)
    world.scheduler.cancel(pending, ADA)
    post_all(world, items)
    assert world.state(pending) == "cancelled"


def test_unchanged_predictions_are_not_written(stale) -> None:
    world, _, _ = stale
    post_all(world, refresh_items(world))
    assert refresh_items(world) == []


def test_many_jobs_are_refreshed_in_batches(world: World, monkeypatch) -> None:
    monkeypatch.setattr(prediction_refresh, "BATCH", 2)
    running = start(world, gpus=4, estimate=100)
    waiting = [start(world, gpus=4, estimate=100) for _ in range(5)]
    world.scheduler._context.predictor.learn(PastRun(world.scheduler._context.job(running), 7 * SECOND_US, 1))
    items = refresh_items(world)
    assert len(items) == 3
    post_all(world, items)
    assert [mid_s(world, job_id)[0] for job_id in waiting] == [7] * 5


def test_failed_prediction_of_one_job_does_not_affect_others(world: World, monkeypatch) -> None:
    running = start(world, gpus=4, estimate=100)
    bad, good = (start(world, gpus=4, estimate=100) for _ in range(2))
    context = world.scheduler._context
    context.predictor.learn(PastRun(context.job(running), 7 * SECOND_US, 1))
    forecast = context.forecast

    def fails_for_one(job, *rest):
        if job.id == bad:
            raise ValueError("of no use")
        return forecast(job, *rest)

    monkeypatch.setattr(context, "forecast", fails_for_one)
    post_all(world, refresh_items(world))
    assert (mid_s(world, bad)[0], mid_s(world, good)[0]) == (100, 7)


class SlowPredictor(LastRunPredictor):
    """Learns only when the test allows it."""

    def __init__(self) -> None:
        self.is_learning, self.may_go_on = threading.Event(), threading.Event()
        self.runs = 0

    def learn(self, run: PastRun) -> None:
        self.is_learning.set()
        assert self.may_go_on.wait(30)
        self.runs += 1


class FakeRefresh:
    """Records for which owners, and after how many runs, a refresh is requested."""

    def __init__(self, predictor: SlowPredictor) -> None:
        self.predictor = predictor
        self.requests: list[tuple[int, object]] = []
        self.has_posted = threading.Event()

    def batches(self, owners):
        self.requests.append((self.predictor.runs, owners))
        if self.predictor.runs:
            yield self.has_posted.set

    def post(self, item) -> None:
        item()


def test_all_owners_are_refreshed_at_the_start_and_once_after_a_burst(world: World) -> None:
    jobs = [world.scheduler._context.job(start(world, who, gpus=4)) for who in (ADA, ADA, BOB)]
    predictor = SlowPredictor()
    training = PredictorTraining(LockedPredictor(predictor), world.database)
    training.prediction_refresh = refresh = FakeRefresh(predictor)
    training.start()
    for at_us, job in enumerate(jobs):
        training.learn(0, PastRun(job, SECOND_US, at_us))
    assert predictor.is_learning.wait(30)
    predictor.may_go_on.set()
    assert refresh.has_posted.wait(30)
    training.close()
    assert refresh.requests == [(0, None), (3, {("default", "ada"), ("default", "bob")})]


def test_refresh_does_not_wait_for_a_pause_between_runs(world: World, monkeypatch) -> None:
    monkeypatch.setattr(training_module, "REFRESH_S", 0.0)
    jobs = [world.scheduler._context.job(start(world, who, gpus=4)) for who in (ADA, BOB)]
    predictor = SlowPredictor()
    training = PredictorTraining(LockedPredictor(predictor), world.database)
    training.prediction_refresh = refresh = FakeRefresh(predictor)
    for at_us, job in enumerate(jobs):
        training._queue.put(partial(training._learn, 0, PastRun(job, SECOND_US, at_us)))
    is_done = threading.Event()
    training._queue.put(is_done.set)
    predictor.may_go_on.set()
    training.start()
    assert is_done.wait(30)
    training.close()
    assert refresh.requests == [(0, None), (1, {("default", "ada")}), (2, {("default", "bob")})]


def test_training_thread_posts_refreshes_to_the_scheduler(world: World, monkeypatch) -> None:
    running, _, pending = (start(world, gpus=gpus, estimate=100) for gpus in (1, 3, 4))
    training, has_posted = world.scheduler._context.training, threading.Event()
    post = training.prediction_refresh.post  # type: ignore[union-attr]
    monkeypatch.setattr(training.prediction_refresh, "post", lambda item: (post(item), has_posted.set()))
    training.start()
    end(world, running)
    assert has_posted.wait(30)
    world.settle()
    training.close()
    assert mid_s(world, pending) == (7, 7)


# -- after a change of mode ----------------------------------------------------------------------------------------


def test_new_mode_changes_the_quantiles_of_pending_and_held_jobs(world: World) -> None:
    running = start(world, gpus=4, estimate=100)
    end(world, running)
    running, pending = (start(world, gpus=4, estimate=100) for _ in range(2))
    held = start(world, gpus=1, estimate=100, after=[{"job": running, "on": "success"}])
    others = start(world, BOB, gpus=4, estimate=100)
    assert (world.state(held), high_s(world, pending)) == ("held", 14)
    world.scheduler.policy_service.set({"mode": "predictive-fifo"}, ADA)
    assert [high_s(world, job_id) for job_id in (pending, held, others)] == [7, 7, 7]
    assert world.scheduler._context.state.queue[pending].prediction.high_us == 7 * SECOND_US
    assert high_s(world, running) == 14
    with world.database.read() as c:
        assert [row.made_us for row in run_forecasts.of_job(c, pending)] == [7 * SECOND_US]


def high_s(world: World, job_id: str) -> float:
    forecast = world.scheduler.row(job_id).forecast
    assert forecast is not None
    return forecast["high_us"] / SECOND_US


def test_no_job_is_predicted_when_the_quantiles_stay_the_same(world: World, monkeypatch) -> None:
    start(world, gpus=4)
    start(world, gpus=4)
    world.scheduler.policy_service.set({"mode": "fair"}, ADA)
    monkeypatch.setattr(LastRunPredictor, "predict", lambda self, job: 1 / 0)
    monkeypatch.setattr(world.scheduler._context.predictor, "predict", lambda *_: pytest.fail("predicted"))
    world.scheduler.policy_service.set({"order": "sjf"}, ADA)
    world.scheduler.policy_service.set({"mode": "jct"}, ADA)


def test_pending_job_starts_when_its_refresh_fails(stale, monkeypatch) -> None:
    world, running, pending = stale
    monkeypatch.setattr(prediction_refresh, "forecast_record", lambda *_: 1 / 0)
    end(world, running)
    assert world.state(pending) == "running"
