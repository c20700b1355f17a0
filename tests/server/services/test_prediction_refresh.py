"""Jobs that wait are foretold anew: by what their owner's runs taught, and by the quantiles of another mode."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from gpusquad.model.job import Job
from gpusquad.model.prediction import PastRun, Quantiles, certain
from gpusquad.predict.base import OnlinePredictor
from gpusquad.server.answers import JobChange, Who
from gpusquad.server.services.jobs import prediction_refresh
from gpusquad.server.services.prediction import training as learning_module
from gpusquad.server.services.prediction.predictor import LockedPredictor
from gpusquad.server.services.prediction.training import PredictorTraining
from gpusquad.sim.predictor_feed import MOST_ANEW
from gpusquad.store import run_forecasts
from tests.server.services.world import ADA, SECOND_US, World

BOB = Who("bob", "default", "member")


class AsLast(OnlinePredictor):
    """The user's word before the first run; then what the last one took, and twice that at the high end."""

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
    return World(tmp_path, "1x4", predictor=AsLast())


def mid_s(world: World, job_id: str) -> tuple[float, float]:
    """As the core plans with it, and as it is on record."""
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


def test_what_a_run_taught_is_said_of_its_owners_waiting_jobs(world: World) -> None:
    runs, _, waits = (start(world, gpus=gpus, estimate=100) for gpus in (1, 3, 4))
    assert mid_s(world, waits) == (100, 100)
    end(world, runs)
    assert mid_s(world, waits) == (7, 7)
    forecast = world.scheduler.queries.when(waits).forecast
    assert forecast is not None
    assert (forecast.mid_us, forecast.high_us, forecast.source) == (7 * SECOND_US, 14 * SECOND_US, "history")


def test_predictions_are_judged_by_what_was_said_at_submission(world: World) -> None:
    runs, _, waits = (start(world, gpus=gpus, estimate=100) for gpus in (1, 3, 4))
    end(world, runs)
    with world.database.read() as c:
        (made,) = run_forecasts.of_job(c, waits)
    assert (made.made_us, made.source, made.values_us) == (0, "user", [100 * SECOND_US])


def test_other_owners_are_left_alone(world: World) -> None:
    runs, _ = (start(world, gpus=4, estimate=100) for _ in range(2))
    others = start(world, BOB, gpus=4, estimate=100)
    end(world, runs)
    assert mid_s(world, others) == (100, 100)


def test_the_limit_holds(world: World) -> None:
    runs, _, waits = (start(world, gpus=gpus, estimate=100, limit=10) for gpus in (1, 3, 4))
    end(world, runs)
    forecast = world.scheduler._context.state.queue[waits].prediction
    assert (forecast.mid_us, forecast.high_us) == (7 * SECOND_US, 10 * SECOND_US)


def test_only_who_waits_longest_and_no_more_than_so_many(world: World, monkeypatch) -> None:
    assert prediction_refresh.MAX_PER_OWNER == MOST_ANEW  # or the simulator shows something else
    monkeypatch.setattr(prediction_refresh, "MAX_PER_OWNER", 2)
    runs = start(world, gpus=1, estimate=100)
    start(world, gpus=3, estimate=100)
    waiting = [start(world, gpus=4, estimate=100) for _ in range(3)]
    end(world, runs)
    assert [mid_s(world, job_id)[0] for job_id in waiting] == [7, 7, 100]


class Named(AsLast):
    """After the first run it knows better who is short."""

    def predict(self, job: Job) -> Quantiles:
        if self.last_us is None:
            return super().predict(job)
        return certain({"long": 900, "short": 3}.get(job.name, 50) * SECOND_US, "history", 0.5)


def test_the_queue_is_ranked_anew_at_once(tmp_path) -> None:
    world = World(tmp_path, "1x4", predictor=Named())
    world.scheduler.policy_service.set({"order": "sjf"}, ADA)
    runs = start(world, gpus=4, estimate=5)
    long, short = world.submit(name="long", gpus=4, estimate=10), world.submit(name="short", gpus=4, estimate=20)
    world.settle()
    assert [entry.job_id for entry in world.scheduler.queries.queue()] == [long, short]
    end(world, runs)
    assert (world.state(short), world.state(long)) == ("running", "pending")


def test_what_was_said_anew_is_known_after_a_restart(world: World) -> None:
    runs, _, waits = (start(world, gpus=gpus, estimate=100) for gpus in (1, 3, 4))
    end(world, runs)
    world.scheduler = world.make()
    assert mid_s(world, waits) == (7, 7)


def test_who_has_run_before_keeps_what_its_own_run_told(world: World) -> None:
    """By its progress perhaps, less what its checkpoint kept: that is more than others' runs can tell."""
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


# -- from the thread that learns -----------------------------------------------------------------------------------


def renewed(world: World) -> list:
    """What the thread would post of everybody: made now, done when the caller does it."""
    return list(prediction_refresh.PredictionRefresh(world.scheduler._context).batches(None))


def do(world: World, items: list) -> None:
    for item in items:
        world.scheduler._context.loop.post(item)
    world.settle()


@pytest.fixture
def stale(world: World) -> tuple[World, str, str]:
    """One runs, one waits, and more is known by now than was said."""
    runs, waits = start(world, gpus=4, estimate=100), start(world, gpus=4, estimate=100)
    world.scheduler._context.predictor.learn(PastRun(world.scheduler._context.job(runs), 7 * SECOND_US, 1))
    return world, runs, waits


def test_it_is_said_in_the_next_turn(stale) -> None:
    world, _, waits = stale
    items = renewed(world)
    assert mid_s(world, waits) == (100, 100)
    do(world, items)
    assert mid_s(world, waits) == (7, 7)


def test_who_was_changed_meanwhile_keeps_the_newer_word(stale) -> None:
    world, _, waits = stale
    items = renewed(world)
    world.scheduler._context.predictor.predictor.last_us = None
    world.scheduler.update(waits, JobChange(estimate_us=33 * SECOND_US), ADA)
    do(world, items)
    assert mid_s(world, waits) == (33, 33)


def test_who_started_meanwhile_keeps_what_it_started_with(stale) -> None:
    world, runs, waits = stale
    items = renewed(world)
    world.scheduler._context.training.prediction_refresh = None
    end(world, runs)
    assert world.state(waits) == "running"
    do(world, items)
    assert world.scheduler.row(waits).forecast["mid_us"] == 100 * SECOND_US
    assert world.scheduler._context.state.runs[waits].prediction.mid_us == 100 * SECOND_US


def test_who_is_gone_meanwhile_is_not_missed(stale) -> None:
    world, _, waits = stale
    items = renewed(world)
    world.scheduler.cancel(waits, ADA)
    do(world, items)
    assert world.state(waits) == "cancelled"


def test_who_is_said_the_same_again_costs_no_write(stale) -> None:
    world, _, _ = stale
    do(world, renewed(world))
    assert renewed(world) == []


def test_many_are_said_in_parts(world: World, monkeypatch) -> None:
    monkeypatch.setattr(prediction_refresh, "BATCH", 2)
    runs = start(world, gpus=4, estimate=100)
    waiting = [start(world, gpus=4, estimate=100) for _ in range(5)]
    world.scheduler._context.predictor.learn(PastRun(world.scheduler._context.job(runs), 7 * SECOND_US, 1))
    items = renewed(world)
    assert len(items) == 3
    do(world, items)
    assert [mid_s(world, job_id)[0] for job_id in waiting] == [7] * 5


def test_one_that_cannot_be_foretold_does_not_keep_the_others(world: World, monkeypatch) -> None:
    runs = start(world, gpus=4, estimate=100)
    bad, good = (start(world, gpus=4, estimate=100) for _ in range(2))
    context = world.scheduler._context
    context.predictor.learn(PastRun(context.job(runs), 7 * SECOND_US, 1))
    forecast = context.forecast

    def fails_for_one(job, *rest):
        if job.id == bad:
            raise ValueError("of no use")
        return forecast(job, *rest)

    monkeypatch.setattr(context, "forecast", fails_for_one)
    do(world, renewed(world))
    assert (mid_s(world, bad)[0], mid_s(world, good)[0]) == (100, 7)


class Slow(AsLast):
    """Learns when it may."""

    def __init__(self) -> None:
        self.is_learning, self.may_go_on = threading.Event(), threading.Event()
        self.runs = 0

    def learn(self, run: PastRun) -> None:
        self.is_learning.set()
        assert self.may_go_on.wait(30)
        self.runs += 1


class Asked:
    """Who is asked for, and after how many runs."""

    def __init__(self, predictor: Slow) -> None:
        self.predictor = predictor
        self.asked: list[tuple[int, object]] = []
        self.has_posted = threading.Event()

    def batches(self, owners):
        self.asked.append((self.predictor.runs, owners))
        if self.predictor.runs:
            yield self.has_posted.set

    def post(self, item) -> None:
        item()


def test_all_are_looked_at_after_a_start_and_after_a_burst_its_owners_once(world: World) -> None:
    jobs = [world.scheduler._context.job(start(world, who, gpus=4)) for who in (ADA, ADA, BOB)]
    predictor = Slow()
    learning = PredictorTraining(LockedPredictor(predictor), world.database)
    learning.prediction_refresh = asked = Asked(predictor)
    learning.start()
    for at_us, job in enumerate(jobs):
        learning.learn(0, PastRun(job, SECOND_US, at_us))
    assert predictor.is_learning.wait(30)
    predictor.may_go_on.set()
    assert asked.has_posted.wait(30)
    learning.close()
    assert asked.asked == [(0, None), (3, {("default", "ada"), ("default", "bob")})]


def test_where_runs_end_all_the_time_nobody_waits_for_a_pause(world: World, monkeypatch) -> None:
    monkeypatch.setattr(learning_module, "REFRESH_S", 0.0)
    jobs = [world.scheduler._context.job(start(world, who, gpus=4)) for who in (ADA, BOB)]
    predictor = Slow()
    learning = PredictorTraining(LockedPredictor(predictor), world.database)
    learning.prediction_refresh = asked = Asked(predictor)
    for at_us, job in enumerate(jobs):
        learning._queue.put(partial(learning._learn, 0, PastRun(job, SECOND_US, at_us)))
    is_done = threading.Event()
    learning._queue.put(is_done.set)
    predictor.may_go_on.set()
    learning.start()
    assert is_done.wait(30)
    learning.close()
    assert asked.asked == [(0, None), (1, {("default", "ada")}), (2, {("default", "bob")})]


def test_the_thread_tells_the_scheduler(world: World, monkeypatch) -> None:
    runs, _, waits = (start(world, gpus=gpus, estimate=100) for gpus in (1, 3, 4))
    learning, has_posted = world.scheduler._context.training, threading.Event()
    post = learning.prediction_refresh.post  # type: ignore[union-attr]
    monkeypatch.setattr(learning.prediction_refresh, "post", lambda item: (post(item), has_posted.set()))
    learning.start()
    end(world, runs)
    assert has_posted.wait(30)
    world.settle()
    learning.close()
    assert mid_s(world, waits) == (7, 7)


# -- when another mode counts on other quantiles -------------------------------------------------------------------


def test_another_mode_is_for_those_who_wait_as_well(world: World) -> None:
    runs = start(world, gpus=4, estimate=100)
    end(world, runs)
    runs, waits = (start(world, gpus=4, estimate=100) for _ in range(2))
    held = start(world, gpus=1, estimate=100, after=[{"job": runs, "on": "success"}])
    others = start(world, BOB, gpus=4, estimate=100)
    assert (world.state(held), high_s(world, waits)) == ("held", 14)
    world.scheduler.policy_service.set({"mode": "predictive-fifo"}, ADA)
    assert [high_s(world, job_id) for job_id in (waits, held, others)] == [7, 7, 7]
    assert world.scheduler._context.state.queue[waits].prediction.high_us == 7 * SECOND_US
    assert high_s(world, runs) == 14
    with world.database.read() as c:
        assert [row.made_us for row in run_forecasts.of_job(c, waits)] == [7 * SECOND_US]


def high_s(world: World, job_id: str) -> float:
    forecast = world.scheduler.row(job_id).forecast
    assert forecast is not None
    return forecast["high_us"] / SECOND_US


def test_a_change_that_counts_on_the_same_quantiles_asks_nobody(world: World, monkeypatch) -> None:
    start(world, gpus=4)
    start(world, gpus=4)
    monkeypatch.setattr(AsLast, "predict", lambda self, job: 1 / 0)
    monkeypatch.setattr(world.scheduler._context.predictor, "predict", lambda *_: pytest.fail("asked"))
    world.scheduler.policy_service.set({"order": "sjf"}, ADA)
    world.scheduler.policy_service.set({"mode": "jct"}, ADA)


def test_one_that_cannot_be_foretold_holds_nobody_up(stale, monkeypatch) -> None:
    world, runs, waits = stale
    monkeypatch.setattr(prediction_refresh, "forecast_record", lambda *_: 1 / 0)
    end(world, runs)
    assert world.state(waits) == "running"
