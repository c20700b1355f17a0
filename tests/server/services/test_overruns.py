"""When a prediction is wrong: the run is told, whoever waits for it is told by how much and because of whom."""

from __future__ import annotations

import pytest

from gpusquad.model.job import Job
from gpusquad.model.prediction import PastRun, Quantiles
from gpusquad.predict.base import OnlinePredictor
from gpusquad.server.answers import Who
from gpusquad.store import events, people
from gpusquad.store.people import TenantRow, UserRow
from tests.server.services.world import ADA, SECOND_US, World

MINUTE_US = 60 * SECOND_US


class Wide(OnlinePredictor):
    """The estimate, or up to three times as long."""

    def predict(self, job: Job) -> Quantiles:
        mid_us = job.estimate_us or MINUTE_US
        return Quantiles((0.5, 0.7, 0.9, 0.99), (mid_us, 3 * mid_us // 2, 2 * mid_us, 3 * mid_us), "history", 0.5)

    def learn(self, run: PastRun) -> None: ...


@pytest.fixture
def world(tmp_path, database) -> World:
    with database.write() as c:
        people.put_tenant(c, TenantRow("other"))
        people.put_user(c, UserRow("eve", "other", "member", False))
    return World(tmp_path, "1x2", database, predictor=Wide())


def story(world: World, job_id: str, kind: str) -> list[str]:
    with world.database.read() as c:
        return [row.cause for row in events.of_job(c, job_id) if row.kind == kind]


def pass_minutes(world: World, last: int) -> None:
    for minute in range(last + 1):
        world.at(minute * MINUTE_US + 1)


def test_a_run_past_its_high_end_is_told_until_when_it_is_expected_now(world: World) -> None:
    job_id = world.submit(gpus=2, estimate=600)
    pass_minutes(world, 20)
    assert story(world, job_id, "overrun") == []  # within what was said
    world.at(21 * MINUTE_US)
    assert story(world, job_id, "overrun") == [
        "runs longer than predicted: now expected to end at 1970-01-01 00:30 UTC, in 9m"
    ]


def test_it_is_not_told_again_at_every_step(world: World) -> None:
    job_id = world.submit(gpus=2, estimate=60)
    pass_minutes(world, 64)
    # At 2 minutes (past the high end), then when it had run so much longer each time: doubling from 3.
    assert 3 <= len(story(world, job_id, "overrun")) <= 7


def test_who_waits_is_told_by_how_much_and_because_of_whom(world: World) -> None:
    runs = world.submit(name="long", gpus=2, estimate=600)
    world.settle()
    mine, theirs = world.submit(gpus=2, estimate=60), world.submit(Who("eve", "other", "member"), gpus=2, estimate=60)
    world.scheduler.policy_service.set({"plan": "conservative"}, ADA)
    pass_minutes(world, 40)
    moved = story(world, mine, "eta_moved")
    assert moved
    assert all(f"long ({runs}) of ada runs longer than predicted: expected " in line for line in moved)
    assert all(line.endswith(" later than reported before") for line in moved)
    others = story(world, theirs, "eta_moved")
    assert others
    assert all(line.startswith(f"job {runs} of another tenant runs longer than predicted") for line in others)
    with world.database.read() as c:
        (last, *_) = [row for row in reversed(events.of_job(c, mine)) if row.kind == "eta_moved"]
    assert last.data is not None
    assert last.data["start_us"] > last.data["before_us"]


def test_whoever_makes_others_wait_is_told_at_once(world: World) -> None:
    runs, waits = world.submit(gpus=2, estimate=600), world.submit(gpus=2, estimate=60)
    pass_minutes(world, 11)
    with world.database.read() as c:
        moved_us = [row.at_us for row in events.of_job(c, waits) if row.kind == "eta_moved"]
        told_us = [row.at_us for row in events.of_job(c, runs) if row.kind == "overrun"]
    assert told_us == moved_us == [11 * MINUTE_US + 1]


def test_an_early_end_frees_the_cards_at_once(world: World) -> None:
    early, waits = world.submit(gpus=2, estimate=600), world.submit(gpus=2, estimate=60)
    world.settle()
    assert world.scheduler.queries.when(waits).start_us == 600 * SECOND_US
    world.clock.at_us = 30 * SECOND_US
    world.engine.end(early, 0)
    world.settle()
    row = world.scheduler.row(waits)
    assert (row.state, row.started_us) == ("running", 30 * SECOND_US)
    assert story(world, early, "overrun") == story(world, waits, "eta_moved") == []


def test_when_of_a_run_that_takes_longer_tells_the_new_end(world: World) -> None:
    job_id = world.submit(gpus=2, estimate=600)
    waits = world.submit(gpus=2, estimate=60)
    world.at(0)
    end = world.scheduler.queries.when(job_id).end
    assert end is not None
    assert (end.mid_us, end.high_us, end.source) == (600 * SECOND_US, 1200 * SECOND_US, "history")
    world.at(601 * SECOND_US)
    end = world.scheduler.queries.when(job_id).end
    assert end is not None
    assert end.mid_us == 900 * SECOND_US
    assert world.scheduler.queries.when(waits).start_us == 900 * SECOND_US


def test_when_tells_how_good_such_forecasts_were(world: World) -> None:
    for ran_s in (50, 60, 90, 130):
        job_id = world.submit(gpus=2, estimate=60)
        world.settle()
        world.clock.at_us += ran_s * SECOND_US
        world.engine.end(job_id, 0)
        world.settle()
    waits = world.submit(gpus=2, estimate=60)
    world.settle()
    record = world.scheduler.queries.when(waits).record
    assert record is not None
    assert (record.count, record.within_ratio) == (4, 0.75)
    assert record.median_ratio == pytest.approx((10 / 50 + 30 / 90) / 2)
