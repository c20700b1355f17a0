"""Summaries of many pending jobs, computed from one copy of the state."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.services.world import ADA, SECOND_US, World

LONG_S = 60.0


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "1x4", mode="predictive-fifo")


def test_summaries_equal_the_answers_to_single_queries(world: World) -> None:
    running = world.submit(gpus=4, estimate=100)
    world.settle()
    waiting = [world.submit(gpus=gpus, estimate=10) for gpus in (4, 2, 3)]
    world.settle()
    held = waiting.pop(0)
    world.scheduler.hold(held, ADA)
    world.settle()
    summaries = world.scheduler.queries.pending_summaries([running, *waiting, held, "nobody"], LONG_S)
    assert summaries.keys() == {*waiting, held}
    for job_id in waiting:
        single = world.scheduler.queries.why(job_id)
        assert (summaries[job_id].position, list(summaries[job_id].reasons)) == (single.position, list(single.reasons))
        assert summaries[job_id].eta_us == world.scheduler.queries.when(job_id).start_us
    assert [reason.code for reason in summaries[held].reasons] == ["held"]


def test_reservation_has_its_start_and_nodes(tmp_path: Path) -> None:
    world = World(tmp_path, "2x4", mode="predictive-fifo")
    world.submit(gpus=4, estimate=100)
    world.settle()
    gang = world.submit(gpus=4, estimate=10, count=2)
    world.settle()
    reservation = world.scheduler.queries.reservations()[gang]
    assert reservation.start_us == 100 * SECOND_US
    assert reservation.latest_us >= reservation.start_us
    assert sorted(reservation.nodes) == sorted(node.id for node in world.cluster.nodes)
    assert world.scheduler.queries.pending_summaries([gang], LONG_S)[gang].reservation == reservation


def test_jobs_not_computed_in_time_are_left_out(world: World) -> None:
    world.submit(gpus=4, estimate=100)
    world.settle()
    waiting = [world.submit(gpus=4) for _ in range(5)]
    world.settle()
    assert list(world.scheduler.queries.pending_summaries(waiting, 0.0)) == waiting[:1]


def test_queue_lists_jobs_that_the_service_holds_but_not_those_of_users(world: World) -> None:
    lost = world.submit(name="lost", gpus=4, estimate=10_000)
    waits = world.submit(name="waits", after=[{"job": lost, "on": "success"}])
    kept = world.submit(name="kept", gpus=4)
    world.settle()
    world.scheduler.hold(kept, ADA)
    for attempt in range(4):
        world.at(world.clock.at_us + 600 * SECOND_US)
        world.engine.end(lost, attempt, "lost", "its node died")
        world.at(world.clock.at_us + 5 * SECOND_US)
    assert [world.scheduler.row(job_id).state for job_id in (waits, kept, lost)] == ["held"] * 3
    (entry,) = world.scheduler.queries.held()
    assert entry.job_id == lost
    assert entry.message == "lost 4 times, the last time because: its node died; next attempt in 40s; held after 8"
    assert world.scheduler.queries.held(tenant="nobody") == []
    assert world.scheduler.queries.held(0) == []
