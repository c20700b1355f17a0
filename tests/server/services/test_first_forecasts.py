"""The first forecast of every pending job is kept and compared with its start, whether or not somebody asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.store import start_forecasts
from tests.server.services.world import SECOND_US, World


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
