"""Overruns: events of the overrunning job and of the pending jobs that it delays."""

from __future__ import annotations

import pytest

from gpusquad.model.job import Job
from gpusquad.model.prediction import PastRun, Quantiles
from gpusquad.predict.base import OnlinePredictor
from gpusquad.server.answers import Who
from gpusquad.server.services.jobs.overruns import Overruns
from gpusquad.server.services.jobs.reservations import ReservationLog
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.store import events, people
from gpusquad.store.people import TenantRow, UserRow
from tests.server.services.world import ADA, SECOND_US, World

MINUTE_US = 60 * SECOND_US


class WidePredictor(OnlinePredictor):
    """Predicts the estimate as the median and three times the estimate as P99."""

    def predict(self, job: Job) -> Quantiles:
        mid_us = job.estimate_us or MINUTE_US
        return Quantiles((0.5, 0.7, 0.9, 0.99), (mid_us, 3 * mid_us // 2, 2 * mid_us, 3 * mid_us), "history", 0.5)

    def learn(self, run: PastRun) -> None: ...


@pytest.fixture
def world(tmp_path, database) -> World:
    with database.write() as c:
        people.put_tenant(c, TenantRow("other"))
        people.put_user(c, UserRow("eve", "other", "member", False))
    return World(tmp_path, "1x2", database, predictor=WidePredictor())


def story(world: World, job_id: str, kind: str) -> list[str]:
    with world.database.read() as c:
        return [row.cause for row in events.of_job(c, job_id) if row.kind == kind]


def pass_minutes(world: World, minutes: int) -> None:
    for minute in range(minutes + 1):
        world.at(minute * MINUTE_US + 1)


def test_run_past_its_p90_gets_an_overrun_event_with_the_new_end(world: World) -> None:
    job_id = world.submit(gpus=2, estimate=600)
    pass_minutes(world, 24)
    assert story(world, job_id, "overrun") == []  # within the prediction and a quarter of it
    pass_minutes(world, 40)
    assert len(story(world, job_id, "overrun")) == 1
    assert story(world, job_id, "overrun")[0].startswith("runs longer than predicted: now expected to end at ")


def test_run_that_is_over_its_prediction_by_seconds_is_no_news(world: World) -> None:
    job_id = world.submit(gpus=2, estimate=1)
    for second in range(60):
        world.at(second * SECOND_US + 1)
    assert story(world, job_id, "overrun") == []
    for second in range(60, 300):
        world.at(second * SECOND_US + 1)
    assert story(world, job_id, "overrun")
    with world.database.read() as c:
        first, *_ = [row for row in events.of_job(c, job_id) if row.kind == "overrun"]
    assert first.data is not None
    assert first.data["ran_us"] >= 62 * SECOND_US


def test_run_that_is_late_by_seconds_is_not_blamed_for_the_delay_of_another(world: World) -> None:
    """A start moves for several causes, of which the last one is blamed."""
    running = world.submit(gpus=2, estimate=600)
    world.at(0)
    context = world.scheduler._context
    reservations = ReservationLog(context)
    for late_us, expected in ((9 * SECOND_US, 0), (10 * SECOND_US, 1)):
        context.state.later_ends[running] = 600 * SECOND_US + late_us
        reservations.blamed = {running}
        unit = UnitOfWork(world.clock.at_us, context.rows)
        Overruns(context, reservations).record(unit)
        assert [one.kind for one in unit.events].count("overrun") == expected


def test_overrun_events_are_not_repeated_in_every_cycle(world: World) -> None:
    job_id = world.submit(gpus=2, estimate=60)
    pass_minutes(world, 64)
    # At 2 minutes (past the P90), then at intervals that double from 3 minutes.
    assert 3 <= len(story(world, job_id, "overrun")) <= 7


def test_delayed_pending_jobs_get_events_with_delay_and_cause(world: World) -> None:
    running = world.submit(name="long", gpus=2, estimate=600)
    world.settle()
    mine, theirs = world.submit(gpus=2, estimate=60), world.submit(Who("eve", "other", "member"), gpus=2, estimate=60)
    world.scheduler.policy_service.set({"plan": "conservative"}, ADA)
    pass_minutes(world, 40)
    moved = story(world, mine, "eta_moved")
    assert moved
    assert all(f"long ({running}) of ada runs longer than predicted: expected " in line for line in moved)
    assert all(line.endswith(" later than reported before") for line in moved)
    their_events = story(world, theirs, "eta_moved")
    assert their_events
    assert all(line.startswith(f"job {running} of another tenant runs longer than predicted") for line in their_events)
    with world.database.read() as c:
        (last, *_) = [row for row in reversed(events.of_job(c, mine)) if row.kind == "eta_moved"]
    assert last.data is not None
    assert last.data["start_us"] > last.data["before_us"]


def test_overrun_event_is_recorded_at_once_when_others_are_delayed(world: World) -> None:
    running, pending = world.submit(gpus=2, estimate=600), world.submit(gpus=2, estimate=60)
    pass_minutes(world, 11)
    with world.database.read() as c:
        moved_us = [row.at_us for row in events.of_job(c, pending) if row.kind == "eta_moved"]
        overrun_us = [row.at_us for row in events.of_job(c, running) if row.kind == "overrun"]
    assert overrun_us == moved_us == [11 * MINUTE_US + 1]


def test_early_end_frees_the_cards_immediately(world: World) -> None:
    early, pending = world.submit(gpus=2, estimate=600), world.submit(gpus=2, estimate=60)
    world.settle()
    assert world.scheduler.queries.when(pending).start_us == 600 * SECOND_US
    world.clock.at_us = 30 * SECOND_US
    world.engine.end(early, 0)
    world.settle()
    row = world.scheduler.row(pending)
    assert (row.state, row.started_us) == ("running", 30 * SECOND_US)
    assert story(world, early, "overrun") == story(world, pending, "eta_moved") == []


def test_when_of_an_overrunning_job_has_the_new_end(world: World) -> None:
    job_id = world.submit(gpus=2, estimate=600)
    pending = world.submit(gpus=2, estimate=60)
    world.at(0)
    end = world.scheduler.queries.when(job_id).end
    assert end is not None
    assert (end.mid_us, end.high_us, end.source) == (600 * SECOND_US, 1200 * SECOND_US, "history")
    world.at(601 * SECOND_US)
    end = world.scheduler.queries.when(job_id).end
    assert end is not None
    assert end.mid_us == 900 * SECOND_US
    assert world.scheduler.queries.when(pending).start_us == 900 * SECOND_US


def test_when_has_the_accuracy_of_past_predictions(world: World) -> None:
    for ran_s in (50, 60, 90, 130):
        job_id = world.submit(gpus=2, estimate=60)
        world.settle()
        world.clock.at_us += ran_s * SECOND_US
        world.engine.end(job_id, 0)
        world.settle()
    pending = world.submit(gpus=2, estimate=60)
    world.settle()
    record = world.scheduler.queries.when(pending).record
    assert record is not None
    assert (record.count, record.within_ratio) == (4, 0.75)
    assert record.median_ratio == pytest.approx((10 / 50 + 30 / 90) / 2)
