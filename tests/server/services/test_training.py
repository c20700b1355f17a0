"""Every run is a lesson, learned once: as it ends, from a file, or from history."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from gpusquad.model.job import Job
from gpusquad.model.prediction import PastRun, Quantiles, certain
from gpusquad.predict.base import OnlinePredictor
from gpusquad.predict.combined import CombinedPredictor
from gpusquad.registry import forget, register
from gpusquad.server.services.prediction import training as learning_module
from gpusquad.server.services.prediction.predictor import LockedPredictor
from gpusquad.server.services.prediction.predictor_files import PredictorFiles
from gpusquad.server.services.prediction.training import PredictorTraining
from gpusquad.store import people, run_forecasts
from gpusquad.store.database import Database, StoreUnavailable
from gpusquad.store.people import TenantRow
from tests.server.services.world import ADA, SECOND_US, World


class Notebook(OnlinePredictor):
    """Writes down what it is taught."""

    def __init__(self) -> None:
        self.lessons: list[tuple[str, int, str]] = []
        self.runs: list[PastRun] = []
        self.asked: list[str] = []
        self.trained = 0

    def predict(self, job: Job) -> Quantiles:
        self.asked.append(job.name)
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
    register("predictor", "notebook")(Notebook)
    yield Notebook
    forget("predictor", "notebook")


@pytest.fixture
def world(tmp_path, database) -> World:
    return World(tmp_path, "1x4", database, predictor=Notebook())


def lessons(world: World) -> list[tuple[str, int, str]]:
    return world.scheduler._context.predictor.predictor.lessons  # type: ignore[attr-defined]


def all_kinds_of_ends(world: World) -> None:
    """One run of each kind, one after the other, each of one second."""

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
    gone = run("gone")
    world.engine.end(gone, 0, "lost", "its keeper died")
    world.settle()
    world.clock.at_us += SECOND_US
    world.engine.end(gone, world.scheduler.row(gone).attempt)
    world.settle()


ENDS = [("good", 1, "succeeded"), ("bad", 1, "failed"), ("cancelled", 1, "cancelled"), ("slow", 1, "timed_out"),
        ("retried", 1, "failed"), ("gone", 1, "lost")]  # fmt: skip


def test_every_end_is_learned_with_how_it_came(world: World) -> None:
    all_kinds_of_ends(world)
    assert lessons(world)[:6] == ENDS
    # Lost at once, so it waits a while for its next try: the others come after.
    assert set(lessons(world)[6:]) <= {("gone", 1, "succeeded"), ("retried", 1, "succeeded")}
    assert world.scheduler._context.predictor.predictor.trained == len(lessons(world))  # type: ignore[attr-defined]


def test_history_teaches_what_was_learned_live(world: World) -> None:
    all_kinds_of_ends(world)
    before = lessons(world)
    world.setup["predictor"] = Notebook()
    world.scheduler = world.make()
    assert lessons(world) == before


def test_a_preempted_run_is_learned_as_cut_and_its_next_attempt_is_foretold_anew(world: World) -> None:
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


def test_a_gang_that_never_started_teaches_nothing(world: World, monkeypatch) -> None:
    monkeypatch.setattr(world.engine, "launch", lambda launch: 1 / 0)
    job_id = world.submit()
    world.settle()
    assert world.state(job_id) == "failed"
    assert lessons(world) == []
    with world.database.read() as c:
        assert [row.truth_us for row in run_forecasts.of_job(c, job_id)] == [None]


def test_each_attempt_has_its_forecast_and_its_truth(world: World) -> None:
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


def test_another_estimate_is_another_forecast_while_it_waits(world: World) -> None:
    from gpusquad.server.answers import JobChange

    runs, waits = world.submit(gpus=4, estimate=10), world.submit(gpus=4, estimate=10)
    world.settle()
    for job_id in (runs, waits):
        world.scheduler.update(job_id, JobChange(estimate_us=99 * SECOND_US), ADA)
    with world.database.read() as c:
        made = [run_forecasts.of_job(c, job_id)[0].values_us for job_id in (runs, waits)]
    assert made == [[10 * SECOND_US], [99 * SECOND_US]]


# -- files ---------------------------------------------------------------------------------------------------------


def kept_world(tmp_path: Path, database: Database) -> World:
    return World(
        tmp_path, "1x4", database, predictor=Notebook(), models=PredictorFiles(tmp_path / "models", "notebook")
    )


def restart(world: World) -> None:
    world.setup["predictor"] = Notebook()
    world.scheduler = world.make()


def run_one(world: World, name: str) -> None:
    job_id = world.submit(name=name)
    world.settle()
    world.clock.at_us += SECOND_US
    world.engine.end(job_id, 0)
    world.settle()


def test_after_a_restart_only_what_came_since_is_learned(tmp_path, database, notebook) -> None:
    world = kept_world(tmp_path, database)
    run_one(world, "first")
    world.scheduler.close()
    run_one(world, "since")  # and then it crashed: nothing was kept
    restart(world)
    assert [name for name, *_ in lessons(world)] == ["first", "since"]
    predictor = world.scheduler._context.predictor.predictor
    assert [run.job.name for run in predictor.runs] == ["since"]  # type: ignore[attr-defined]


def test_a_file_of_another_format_or_store_is_learned_anew(tmp_path, database, notebook, monkeypatch) -> None:
    world = kept_world(tmp_path, database)
    run_one(world, "first")
    world.scheduler.close()
    with monkeypatch.context() as patched:
        patched.setattr(Notebook, "format", 2)
        restart(world)
        assert len(world.scheduler._context.predictor.predictor.runs) == 1  # type: ignore[attr-defined]
    other = Database(tmp_path / "other.db")
    other.migrate()
    with other.write() as c:
        people.put_tenant(c, TenantRow("default"))
    assert lessons(kept_world(tmp_path, other)) == []
    other.close()


def test_a_broken_file_keeps_nobody_from_starting(tmp_path, database, notebook) -> None:
    world = kept_world(tmp_path, database)
    run_one(world, "first")
    world.scheduler.close()
    next((tmp_path / "models").iterdir()).write_bytes(b"nonsense")
    restart(world)
    assert [name for name, *_ in lessons(world)] == ["first"]


def test_of_a_long_history_the_newest_runs_are_learned(world: World, monkeypatch) -> None:
    for name in "abcdef":
        run_one(world, name)
    monkeypatch.setattr(learning_module, "MAX_HISTORY", 4)
    monkeypatch.setattr(learning_module, "CHUNK", 3)
    restart(world)
    assert [name for name, *_ in lessons(world)] == ["c", "d", "e", "f"]


def test_history_teaches_what_being_wrong_taught_as_well(tmp_path) -> None:
    world = World(tmp_path, "1x4", predictor=CombinedPredictor())
    for _ in range(15):
        run_one(world, "train")
    live = world.scheduler._context.predictor.predictor
    world.setup["predictor"] = again = CombinedPredictor()
    world.scheduler = world.make()
    assert any(again.dump()["calibration"]["all"])
    assert again.dump() == live.dump()  # type: ignore[attr-defined]


def test_of_the_past_only_the_newest_runs_are_foretold(world: World, monkeypatch) -> None:
    for name in "abcde":
        run_one(world, name)
    monkeypatch.setattr(learning_module, "MAX_PREDICTED", 3)
    monkeypatch.setattr(learning_module, "CHUNK", 2)
    restart(world)
    predictor = world.scheduler._context.predictor.predictor
    assert [name for name, *_ in lessons(world)] == ["a", "b", "c", "d", "e"]
    assert predictor.asked == ["c", "d", "e"]  # type: ignore[attr-defined]
    assert predictor.trained == 5  # type: ignore[attr-defined]


def test_told_to_stop_while_it_lives_through_the_past_it_goes_on_there_next_time(tmp_path, database, notebook) -> None:
    world = kept_world(tmp_path, database)
    for name in "abcd":
        run_one(world, name)
    learning = PredictorTraining(LockedPredictor(Stops(2)), database, world.setup["models"])
    learning._predictor.predictor.stop = learning._closing.set  # type: ignore[attr-defined]
    learning.start()
    learning._thread.join(30)
    restart(world)
    assert [name for name, *_ in lessons(world)] == ["a", "b", "c", "d"]
    assert len(world.scheduler._context.predictor.predictor.runs) == 2  # type: ignore[attr-defined]


class Stops(Notebook):
    """Has the service stop after so many lessons."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def learn(self, run: PastRun) -> None:
        super().learn(run)
        if len(self.lessons) == self.after:
            self.stop()  # type: ignore[attr-defined]


# -- the thread ----------------------------------------------------------------------------------------------------


class Slow(Notebook):
    """Trains for as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()
        self.is_training = threading.Event()

    def train(self) -> None:
        self.is_training.set()
        assert self.may_go_on.wait(30)
        super().train()


def test_nobody_waits_for_training(world: World) -> None:
    predictor = Slow()
    locked = LockedPredictor(predictor)
    learning = PredictorTraining(locked, world.database)
    learning.start()
    job = _a_job(world)
    learning.learn(0, PastRun(job, SECOND_US, 1))
    assert predictor.is_training.wait(30)
    assert locked.predict(job).run is not None  # while it trains
    learning.learn(1, PastRun(job, SECOND_US, 2))
    predictor.may_go_on.set()
    learning.close()
    assert len(predictor.lessons) == 2


def _a_job(world: World) -> Job:
    job_id = world.submit(gpus=4)
    world.settle()
    return world.scheduler._context.job(job_id)


def test_runs_that_end_while_history_is_read_are_left_out_of_it(world: World) -> None:
    for name in "ab":
        run_one(world, name)
    predictor = Notebook()
    learning = PredictorTraining(LockedPredictor(predictor), world.database)
    with world.database.read() as c:
        *_, last = run_forecasts.past_runs(c, run_forecasts.BEFORE_ALL, 10)
    learning._live = {(last.job_id, last.attempt)}  # it waits in the queue
    learning.load_history()
    assert [name for name, *_ in predictor.lessons] == ["a"]


def test_told_to_stop_while_it_reads_history_it_goes_on_there_next_time(
    tmp_path, database, notebook, monkeypatch
) -> None:
    world = kept_world(tmp_path, database)
    for name in "abcd":
        run_one(world, name)
    monkeypatch.setattr(learning_module, "CHUNK", 2)
    monkeypatch.setattr(learning_module, "MAX_PREDICTED", 2)
    predictor = Notebook()
    learning = PredictorTraining(LockedPredictor(predictor), database, world.setup["models"])
    read = run_forecasts.past_runs

    def read_and_close(*args):
        learning._closing.set()
        return read(*args)

    with monkeypatch.context() as patched:
        patched.setattr(run_forecasts, "past_runs", read_and_close)
        learning.start()
        learning._thread.join(30)
    assert [name for name, *_ in predictor.lessons] == ["a", "b"]
    restart(world)
    assert [name for name, *_ in lessons(world)] == ["a", "b", "c", "d"]
    assert len(world.scheduler._context.predictor.predictor.runs) == 2  # type: ignore[attr-defined]


class Unkept(Notebook):
    """Is asked, and so changed, whenever it is written down."""

    def __init__(self) -> None:
        super().__init__()
        self.has_learned_twice = threading.Event()

    def learn(self, run: PastRun) -> None:
        super().learn(run)
        if len(self.lessons) == 2:
            self.has_learned_twice.set()

    def dump(self) -> dict:
        raise RuntimeError("OrderedDict mutated during iteration")


def test_a_predictor_that_cannot_be_kept_just_now_goes_on_learning(tmp_path, database, notebook, monkeypatch) -> None:
    monkeypatch.setattr(learning_module, "SAVE_RUNS", 1)
    world = kept_world(tmp_path, database)
    predictor, job = Unkept(), _a_job(world)
    learning = PredictorTraining(LockedPredictor(predictor), database, world.setup["models"])
    learning.start()
    for attempt in range(2):
        learning.learn(attempt, PastRun(job, SECOND_US, attempt + 1))
    assert predictor.has_learned_twice.wait(10)
    learning.close()


def test_a_store_that_is_away_is_asked_again(world: World, monkeypatch) -> None:
    run_one(world, "a")
    monkeypatch.setattr(learning_module, "_RETRY_S", 0.0)
    failures = [StoreUnavailable("gone"), StoreUnavailable("gone")]
    read = run_forecasts.past_runs

    def flaky(*args):
        if failures:
            raise failures.pop()
        return read(*args)

    monkeypatch.setattr(run_forecasts, "past_runs", flaky)
    restart(world)
    assert [name for name, *_ in lessons(world)] == ["a"]


def test_a_predictor_that_cannot_learn_harms_nobody(world: World, monkeypatch) -> None:
    monkeypatch.setattr(Notebook, "learn", lambda self, run: 1 / 0)
    monkeypatch.setattr(Notebook, "is_due", lambda self: 1 / 0)
    run_one(world, "a")
    assert world.scheduler.queries.unfinished() == []
    restart(world)
    run_one(world, "b")
    assert world.scheduler.queries.unfinished() == []
