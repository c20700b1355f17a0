"""The service in its default mode preempts only for a right, and only what loses little."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.services.world import SECOND_US, World

HOUR_S = 3600


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "1x8", mode="standard")


@pytest.mark.parametrize(("gpus", "start_s"), [(4, 1000), (8, HOUR_S)])
def test_urgent_job_preempts_jobs_with_recent_checkpoints(world: World, gpus: int, start_s: int):
    """A small job gives way at once, a large one at its next checkpoint."""
    victims = [world.submit(gpus=gpus, estimate=20 * HOUR_S, checkpoint={"every": "1h"}) for _ in range(8 // gpus)]
    world.at(0)
    world.clock.at_us = 1000 * SECOND_US
    urgent = world.submit(gpus=8, priority="urgent")
    world.at(1000 * SECOND_US)
    assert (world.state(urgent) == "running") == (start_s == 1000)
    world.at(start_s * SECOND_US)
    world.at(start_s * SECOND_US + 1)
    assert world.state(urgent) == "running"
    assert {world.state(job_id) for job_id in victims} == {"pending"}


def test_job_without_checkpoints_keeps_its_cards(world: World):
    kept = world.submit(gpus=8, estimate=HOUR_S)
    world.at(0)
    world.clock.at_us = 1000 * SECOND_US
    urgent = world.submit(gpus=8, priority="urgent")
    for at_s in (1000, 2000, 3000):
        world.at(at_s * SECOND_US)
    assert (world.state(kept), world.state(urgent)) == ("running", "pending")


def test_job_with_checkpoints_keeps_its_cards_before_later_ones_of_its_class(world: World):
    kept = world.submit(gpus=8, estimate=HOUR_S, checkpoint={"every": "1m"})
    world.at(0)
    later = world.submit(gpus=8, estimate=10)
    world.at(2000 * SECOND_US)
    assert (world.state(kept), world.state(later)) == ("running", "pending")
