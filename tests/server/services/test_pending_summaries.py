"""What many that wait are told, from one copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.services.world import ADA, SECOND_US, World

LONG_S = 60.0


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "1x4", mode="predictive-fifo")


def test_everybody_who_waits_is_told_what_it_would_be_told_alone(world: World) -> None:
    running = world.submit(gpus=4, estimate=100)
    world.settle()
    waiting = [world.submit(gpus=gpus, estimate=10) for gpus in (4, 2, 3)]
    world.settle()
    held = waiting.pop(0)
    world.scheduler.hold(held, ADA)
    world.settle()
    told = world.scheduler.queries.pending_summaries([running, *waiting, held, "nobody"], LONG_S)
    assert told.keys() == {*waiting, held}
    for job_id in waiting:
        alone = world.scheduler.queries.why(job_id)
        assert (told[job_id].position, list(told[job_id].reasons)) == (alone.position, list(alone.reasons))
        assert told[job_id].eta_us == world.scheduler.queries.when(job_id).start_us
    assert [reason.code for reason in told[held].reasons] == ["held"]


def test_a_promise_names_its_start_and_its_nodes_by_rank(tmp_path: Path) -> None:
    world = World(tmp_path, "2x4", mode="predictive-fifo")
    world.submit(gpus=4, estimate=100)
    world.settle()
    gang = world.submit(gpus=4, estimate=10, count=2)
    world.settle()
    promised = world.scheduler.queries.reservations()[gang]
    assert promised.start_us == 100 * SECOND_US
    assert promised.latest_us >= promised.start_us
    assert sorted(promised.nodes) == sorted(node.id for node in world.cluster.nodes)
    assert world.scheduler.queries.pending_summaries([gang], LONG_S)[gang].promised == promised


def test_whoever_is_not_reached_in_time_is_left_out(world: World) -> None:
    world.submit(gpus=4, estimate=100)
    world.settle()
    waiting = [world.submit(gpus=4) for _ in range(5)]
    world.settle()
    assert list(world.scheduler.queries.pending_summaries(waiting, 0.0)) == waiting[:1]
