"""The first forecast of every pending job is kept and compared with its start, whether or not somebody asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.store import start_forecasts
from tests.server.services.world import ADA, SECOND_US, World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "1x8", mode="standard")


def submit(world: World, name: str, estimate: int, actual_s: float) -> str:
    world.engine.run_us[name] = round(actual_s * SECOND_US)
    job_id = world.submit(name=name, gpus=8, estimate=estimate)
    world.settle()
    return job_id


def keep(world: World) -> None:
    world.scheduler.queries.keep_first_forecasts()
    world.settle()


def rows(world: World) -> list[start_forecasts.StartForecastRow]:
    with world.database.read() as c:
        return start_forecasts.settled(c, 0, "default", 10)


def test_first_forecast_is_stored_with_the_start(world: World) -> None:
    submit(world, "ahead", 100, 90)
    waits = submit(world, "waits", 50, 50)
    keep(world)
    world.at(30 * SECOND_US)
    keep(world)  # a later forecast does not replace the first
    world.at(90 * SECOND_US)
    world.settle()
    [row] = rows(world)
    assert (row.job_id, row.tenant, row.made_us) == (waits, "default", 0)
    assert row.mid_us == 100 * SECOND_US
    assert row.high_us is not None
    assert row.high_us >= row.mid_us
    assert row.started_us == 90 * SECOND_US


def test_job_that_starts_at_once_has_no_forecast(world: World) -> None:
    submit(world, "alone", 100, 90)
    keep(world)
    assert rows(world) == []


def test_forecasts_that_nobody_asked_for_do_not_bind_after_a_restart(world: World) -> None:
    submit(world, "ahead", 100, 90)
    waits = submit(world, "waits", 50, 50)
    before = dict(world.scheduler.context.state.committed_us)
    keep(world)
    world.scheduler = world.make()
    world.settle()
    assert world.scheduler.context.state.committed_us.get(waits) == before.get(waits)


def test_forecasts_count_for_later_ones_after_a_restart(world: World) -> None:
    for number in range(20):
        began_us = world.clock.at_us
        submit(world, f"ahead{number}", 100, 100)
        submit(world, f"waits{number}", 50, 50)
        keep(world)
        world.at(began_us + 100 * SECOND_US)
        world.at(began_us + 3600 * SECOND_US)
    submit(world, "ahead", 1000, 1000)
    waits = submit(world, "waits", 50, 50)
    keep(world)
    now_us = world.clock.at_us
    log = world.scheduler.context.starts
    before = log.at(now_us).high_us("default", now_us, now_us + 100 * SECOND_US)
    assert before == now_us + 100 * SECOND_US, "every start was on time"
    assert log.open == {waits}
    world.scheduler = world.make()
    log = world.scheduler.context.starts
    assert log.at(now_us).high_us("default", now_us, now_us + 100 * SECOND_US) == before
    assert log.open == {waits}


def test_job_that_its_user_held_gets_another_forecast(world: World) -> None:
    submit(world, "ahead", 100, 1000)
    waits = submit(world, "waits", 50, 50)
    keep(world)
    call = world.scheduler.context.loop.call
    world.scheduler.context.loop.call = lambda item: item()  # type: ignore[method-assign]
    world.scheduler.hold(waits, ADA)
    world.settle()
    keep(world)
    assert world.scheduler.context.starts.open == frozenset()
    world.at(500 * SECOND_US)
    world.scheduler.release(waits, ADA)
    world.scheduler.context.loop.call = call  # type: ignore[method-assign]
    world.settle()
    keep(world)
    world.at(1000 * SECOND_US)
    world.settle()
    [row] = rows(world)
    assert (row.job_id, row.made_us) == (waits, 500 * SECOND_US), "the time in which it was held is not a wait"
