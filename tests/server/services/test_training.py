"""PredictorTraining: every run is learned once, when it ends, from a file or from history."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gpusquad.model.job import Job
from gpusquad.model.prediction import PastRun, Quantiles, certain
from gpusquad.predict.base import OnlinePredictor
from gpusquad.predict.combined import CombinedPredictor
from gpusquad.registry import forget, register
from gpusquad.server.services.prediction import training as training_module
from gpusquad.server.services.prediction.predictor import LockedPredictor
from gpusquad.server.services.prediction.predictor_files import PredictorFiles
from gpusquad.server.services.prediction.training import PredictorTraining
from gpusquad.store import people, run_forecasts
from gpusquad.store.database import Database, StoreUnavailable
from gpusquad.store.people import TenantRow
from tests.server.services.world import ADA, SECOND_US, World


class RecordingPredictor(OnlinePredictor):
    """Records the runs it learns and the jobs it predicts."""

    def __init__(self) -> None:
        self.lessons: list[tuple[str, int, str]] = []
        self.runs: list[PastRun] = []
        self.predicted: list[str] = []
        self.trained = 0

    def predict(self, job: Job) -> Quantiles:
        self.predicted.append(job.name)
        return certain(job.estimate_us or 5 * SECOND_US, "user", 0.25)

    def learn(self, run: PastRun) -> None:
        self.lessons.append((run.job.name, run.run_us // SECOND_US, run.how))
        self.runs.append(run)

    def is_due(self) -> bool:
        return len(self.lessons) > self.trained

    def train(self) -> None:
        self.trained = len(self.lessons)

    def dump(self) -> dict:
        return {"lessons": self.lessons}

    def load(self, dumped: dict) -> None:
        self.lessons = [tuple(lesson) for lesson in dumped["lessons"]]


@pytest.fixture
def notebook():
    register("predictor", "notebook")(RecordingPredictor)
    yield RecordingPredictor
    forget("predictor", "notebook")


@pytest.fixture
def world(tmp_path, database) -> World:
    return World(tmp_path, "1x4", database, predictor=RecordingPredictor())


def lessons(world: World) -> list[tuple[str, int, str]]:
    return world.scheduler._context.predictor.predictor.lessons  # type: ignore[attr-defined]


def run_jobs_with_all_ends(world: World) -> None:
    """Run one job with each kind of end, one second each."""

    def run(name: str, **file) -> str:
        job_id = world.submit(name=name, **file)
        world.settle()
        world.clock.at_us += SECOND_US
        return job_id

    world.engine.end(run("good"), 0)
    world.engine.end(run("bad"), 0, "failed")
    world.settle()
    world.scheduler.cancel(run("cancelled"), ADA)
    world.settle()
    run("slow", limit=1)
    world.settle()
    world.engine.end(run("retried", retries={"count": 1, "backoff": 0}), 0, "failed")
    world.settle()
    lost = run("gone")
    world.engine.end(lost, 0, "lost", "its keeper died")
    world.settle()
    world.clock.at_us += SECOND_US
    world.engine.end(lost, world.scheduler.row(lost).attempt)
    world.settle()


ENDS = [("good", 1, "succeeded"), ("bad", 1, "failed"), ("cancelled", 1, "cancelled"), ("slow", 1, "timed_out"),
        ("retried", 1, "failed"), ("gone", 1, "lost")]  # fmt: skip


def test_every_run_is_learned_with_its_end(world: World) -> None:
    run_jobs_with_all_ends(world)
    assert lessons(world)[:6] == ENDS
    # The lost job waits for its retry, so the other retries end first.
    assert set(lessons(world)[6:]) <= {("gone", 1, "succeeded"), ("retried", 1, "succeeded")}
    assert world.scheduler._context.predictor.predictor.trained == len(lessons(world))  # type: ignore[attr-defined]


def test_runs_learned_from_history_equal_those_learned_live(world: World) -> None:
    run_jobs_with_all_ends(world)
    before = lessons(world)
    world.setup["predictor"] = RecordingPredictor()
    world.scheduler = world.make()
    assert lessons(world) == before


def test_preempted_run_is_learned_and_its_next_attempt_gets_a_new_prediction(world: World) -> None:
    world.scheduler.policy_service.set({"preemption": {"by": "priority", "min_run_s": 0}}, ADA)
    low = world.submit(name="low", gpus=4, priority="low", estimate=100, checkpoint={"every": 10})
    world.at(25 * SECOND_US)
    world.submit(name="high", gpus=4, priority="urgent", estimate=10)
    world.at(50 * SECOND_US)
    assert ("low", 25, "preempted") in lessons(world)
    with world.database.read() as c:
        first, second = run_forecasts.of_job(c, low)
    assert (first.truth_us, first.how, first.values_us) == (25 * SECOND_US, "preempted", [100 * SECOND_US])
    assert (second.attempt, second.truth_us, second.values_us) == (1, None, [80 * SECOND_US])


def test_gang_that_never_started_is_not_learned(world: World, monkeypatch) -> None:
    monkeypatch.setattr(world.engine, "launch", lambda launch: 1 / 0)
    job_id = world.submit()
    world.settle()
    assert world.state(job_id) == "failed"
    assert lessons(world) == []
    with world.database.read() as c:
        assert [row.truth_us for row in run_forecasts.of_job(c, job_id)] == [None]


def test_each_attempt_stores_its_prediction_and_actual_run_time(world: World) -> None:
    job_id = world.submit(name="x", estimate=10, retries={"count": 1, "backoff": 0})
    world.engine.run_us["x"] = 3 * SECOND_US
    world.engine.ends_as["x"] = "failed"
    for at_s in range(200):
        world.at(at_s * SECOND_US)
    with world.database.read() as c:
        rows = run_forecasts.of_job(c, job_id)
    assert [(row.attempt, row.truth_us, row.how) for row in rows] == [
        (0, 3 * SECOND_US, "failed"),
        (1, 3 * SECOND_US, "failed"),
    ]
    assert {(row.tenant, row.user, row.source, row.estimate_us) for row in rows} == {
        ("default", "ada", "user", 10 * SECOND_US)
    }


def test_new_estimate_changes_the_prediction_of_pending_jobs_only(world: World) -> None:
    from gpusquad.server.answers import JobChange

    runs, waits = world.submit(gpus=4, estimate=10), world.submit(gpus=4, estimate=10)
    world.settle()
    for job_id in (runs, waits):
        world.scheduler.update(job_id, JobChange(estimate_us=99 * SECOND_US), ADA)
    with world.database.read() as c:
        made = [run_forecasts.of_job(c, job_id)[0].values_us for job_id in (runs, waits)]
    assert made == [[10 * SECOND_US], [99 * SECOND_US]]


# -- files ---------------------------------------------------------------------------------------------------------


def world_with_files(tmp_path: Path, database: Database) -> World:
    return World(
        tmp_path,
        "1x4",
        database,
        predictor=RecordingPredictor(),
        models=PredictorFiles(tmp_path / "models", "notebook"),
    )


def restart(world: World) -> None:
    world.setup["predictor"] = RecordingPredictor()
    world.scheduler = world.make()


def run_job(world: World, name: str) -> None:
    job_id = world.submit(name=name)
    world.settle()
    world.clock.at_us += SECOND_US
    world.engine.end(job_id, 0)
    world.settle()


def test_only_runs_since_the_saved_file_are_learned_after_a_restart(tmp_path, database, notebook) -> None:
    world = world_with_files(tmp_path, database)
    run_job(world, "first")
    world.scheduler.close()
    run_job(world, "since")  # not saved, as after a crash
    restart(world)
    assert [name for name, *_ in lessons(world)] == ["first", "since"]
    predictor = world.scheduler._context.predictor.predictor
    assert [run.job.name for run in predictor.runs] == ["since"]  # type: ignore[attr-defined]


def test_file_of_another_format_or_store_is_ignored(tmp_path, database, notebook, monkeypatch) -> None:
    world = world_with_files(tmp_path, database)
    run_job(world, "first")
    world.scheduler.close()
    with monkeypatch.context() as patched:
        patched.setattr(RecordingPredictor, "format", 2)
        restart(world)
        assert len(world.scheduler._context.predictor.predictor.runs) == 1  # type: ignore[attr-defined]
    other = Database(tmp_path / "other.db")
    other.migrate()
    with other.write() as c:
        people.put_tenant(c, TenantRow("default"))
    assert lessons(world_with_files(tmp_path, other)) == []
    other.close()


def test_broken_file_is_ignored_at_the_start(tmp_path, database, notebook) -> None:
    world = world_with_files(tmp_path, database)
    run_job(world, "first")
    world.scheduler.close()
    next((tmp_path / "models").iterdir()).write_bytes(b"nonsense")
    restart(world)
    assert [name for name, *_ in lessons(world)] == ["first"]


def test_newest_runs_are_learned_from_a_long_history(world: World, monkeypatch) -> None:
    for name in "abcdef":
        run_job(world, name)
    monkeypatch.setattr(training_module, "MAX_HISTORY", 4)
    monkeypatch.setattr(training_module, "CHUNK", 3)
    restart(world)
    assert [name for name, *_ in lessons(world)] == ["c", "d", "e", "f"]


def test_calibration_is_learned_from_history_as_well(tmp_path) -> None:
    world = World(tmp_path, "1x4", predictor=CombinedPredictor())
    for _ in range(15):
        run_job(world, "train")
    live = world.scheduler._context.predictor.predictor
    world.setup["predictor"] = again = CombinedPredictor()
    world.scheduler = world.make()
    assert any(again.dump()["calibration"]["all"])
    assert again.dump() == live.dump()  # type: ignore[attr-defined]


def test_only_the_newest_runs_of_history_are_predicted(world: World, monkeypatch) -> None:
    for name in "abcde":
        run_job(world, name)
    monkeypatch.setattr(training_module, "MAX_PREDICTED", 3)
    monkeypatch.setattr(training_module, "CHUNK", 2)
    restart(world)
    predictor = world.scheduler._context.predictor.predictor
    assert [name for name, *_ in lessons(world)] == ["a", "b", "c", "d", "e"]
    assert predictor.predicted == ["c", "d", "e"]  # type: ignore[attr-defined]
    assert predictor.trained == 5  # type: ignore[attr-defined]


def test_learning_of_history_continues_after_a_stop(tmp_path, database, notebook) -> None:
    world = world_with_files(tmp_path, database)
    for name in "abcd":
        run_job(world, name)
    training = PredictorTraining(LockedPredictor(StoppingPredictor(2)), database, world.setup["models"])
    training._predictor.predictor.stop = training._closing.set  # type: ignore[attr-defined]
    training.start()
    training._thread.join(30)
    restart(world)
    assert [name for name, *_ in lessons(world)] == ["a", "b", "c", "d"]
    assert len(world.scheduler._context.predictor.predictor.runs) == 2  # type: ignore[attr-defined]


class StoppingPredictor(RecordingPredictor):
    """Stops the service after `after` lessons."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def learn(self, run: PastRun) -> None:
        super().learn(run)
        if len(self.lessons) == self.after:
            self.stop()  # type: ignore[attr-defined]


# -- the thread ----------------------------------------------------------------------------------------------------


class SlowPredictor(RecordingPredictor):
    """Trains until the test lets it continue."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()
        self.is_training = threading.Event()

    def train(self) -> None:
        self.is_training.set()
        assert self.may_go_on.wait(30)
        super().train()


def test_predictions_do_not_wait_for_training(world: World) -> None:
    predictor = SlowPredictor()
    locked = LockedPredictor(predictor)
    training = PredictorTraining(locked, world.database)
    training.start()
    job = _submitted_job(world)
    training.learn(0, PastRun(job, SECOND_US, 1))
    assert predictor.is_training.wait(30)
    assert locked.predict(job).run is not None  # while it trains
    training.learn(1, PastRun(job, SECOND_US, 2))
    predictor.may_go_on.set()
    training.close()
    assert len(predictor.lessons) == 2


def _submitted_job(world: World) -> Job:
    job_id = world.submit(gpus=4)
    world.settle()
    return world.scheduler._context.job(job_id)


def test_run_that_ended_live_is_not_learned_from_history_too(world: World) -> None:
    for name in "ab":
        run_job(world, name)
    predictor = RecordingPredictor()
    training = PredictorTraining(LockedPredictor(predictor), world.database)
    with world.database.read() as c:
        *_, last = run_forecasts.past_runs(c, run_forecasts.BEFORE_ALL, 10)
    training._live = {(last.job_id, last.attempt)}  # it waits in the queue
    training.load_history()
    assert [name for name, *_ in predictor.lessons] == ["a"]


def test_reading_of_history_continues_after_a_stop(tmp_path, database, notebook, monkeypatch) -> None:
    world = world_with_files(tmp_path, database)
    for name in "abcd":
        run_job(world, name)
    monkeypatch.setattr(training_module, "CHUNK", 2)
    monkeypatch.setattr(training_module, "MAX_PREDICTED", 2)
    predictor = RecordingPredictor()
    training = PredictorTraining(LockedPredictor(predictor), database, world.setup["models"])
    read = run_forecasts.past_runs

    def read_and_close(*args):
        training._closing.set()
        return read(*args)

    with monkeypatch.context() as patched:
        patched.setattr(run_forecasts, "past_runs", read_and_close)
        training.start()
        training._thread.join(30)
    assert [name for name, *_ in predictor.lessons] == ["a", "b"]
    restart(world)
    assert [name for name, *_ in lessons(world)] == ["a", "b", "c", "d"]
    assert len(world.scheduler._context.predictor.predictor.runs) == 2  # type: ignore[attr-defined]


class UnsavablePredictor(RecordingPredictor):
    """Cannot be saved, as if it were changed while it is dumped."""

    def __init__(self) -> None:
        super().__init__()
        self.has_learned_twice = threading.Event()

    def learn(self, run: PastRun) -> None:
        super().learn(run)
        if len(self.lessons) == 2:
            self.has_learned_twice.set()

    def dump(self) -> dict:
        raise RuntimeError("OrderedDict mutated during iteration")


def test_predictor_that_cannot_be_saved_continues_to_learn(tmp_path, database, notebook, monkeypatch) -> None:
    monkeypatch.setattr(training_module, "SAVE_RUNS", 1)
    world = world_with_files(tmp_path, database)
    predictor, job = UnsavablePredictor(), _submitted_job(world)
    training = PredictorTraining(LockedPredictor(predictor), database, world.setup["models"])
    training.start()
    for attempt in range(2):
        training.learn(attempt, PastRun(job, SECOND_US, attempt + 1))
    assert predictor.has_learned_twice.wait(10)
    training.close()


def test_unavailable_store_is_read_again(world: World, monkeypatch) -> None:
    run_job(world, "a")
    monkeypatch.setattr(training_module, "_RETRY_S", 0.0)
    failures = [StoreUnavailable("gone"), StoreUnavailable("gone")]
    read = run_forecasts.past_runs

    def flaky(*args):
        if failures:
            raise failures.pop()
        return read(*args)

    monkeypatch.setattr(run_forecasts, "past_runs", flaky)
    restart(world)
    assert [name for name, *_ in lessons(world)] == ["a"]


def test_jobs_finish_when_the_predictor_cannot_learn(world: World, monkeypatch) -> None:
    monkeypatch.setattr(RecordingPredictor, "learn", lambda self, run: 1 / 0)
    monkeypatch.setattr(RecordingPredictor, "is_due", lambda self: 1 / 0)
    run_job(world, "a")
    assert world.scheduler.queries.unfinished() == []
    restart(world)
    run_job(world, "b")
    assert world.scheduler.queries.unfinished() == []
