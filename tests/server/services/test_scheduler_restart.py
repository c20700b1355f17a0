"""Restart of the scheduler: it continues from the stored state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpusquad.core.ports import AttemptStarted
from gpusquad.model.cluster import Cluster, grid
from gpusquad.spec.check import check
from gpusquad.spec.expand import expand
from gpusquad.store import people
from gpusquad.store.people import TenantRow
from tests.server.services.world import ADA, SECOND_US, World, last_cause


@pytest.fixture
def world(tmp_path, database) -> World:
    return World(tmp_path, "1x2", database)


def test_running_stopping_pending_and_held_jobs_continue_after_a_restart(world: World) -> None:
    running, stopping = world.submit(name="r", gpus=1), world.submit(name="s", gpus=1)
    waiting, held = world.submit(name="w", gpus=1), world.submit(name="h", after=["r"])
    world.settle()
    world.engine.slow_to_stop = True
    world.scheduler.cancel(stopping, ADA)
    world.scheduler = world.make()
    assert sorted(world.engine.recovered) == sorted([(running, 0), (stopping, 0)])
    for job_id, attempt in world.engine.recovered:
        world.engine.report(AttemptStarted(job_id, attempt, (1,)))
    world.settle()
    assert len(world.engine.launched) == 2
    assert world.engine.stopped[-1][1] == stopping
    world.engine.end(stopping, 0, "stopped")
    world.settle()
    assert (world.state(stopping), world.state(waiting)) == ("cancelled", "running")
    world.engine.end(running, 0)
    world.settle()
    assert (world.state(running), world.state(held)) == ("succeeded", "running")


def test_lost_gang_runs_again_with_the_next_attempt_number(world: World) -> None:
    job_id = world.submit(gpus=1)
    world.settle()
    world.scheduler = world.make()
    world.engine.end(job_id, 0, "lost", "its keeper died")
    world.settle()
    row = world.scheduler.row(job_id)
    assert (row.state, row.attempt) == ("running", 1)
    world.engine.end(job_id, 1)
    world.settle()
    assert world.state(job_id) == "succeeded"


def test_gang_that_is_always_lost_is_held_after_a_few_attempts(world: World) -> None:
    job_id = world.submit(gpus=1)
    for at_s in range(60):
        world.at(at_s * SECOND_US)
        row = world.scheduler.row(job_id)
        world.engine.end(job_id, row.attempt, "lost", "no space left on device")
    world.settle()
    row = world.scheduler.row(job_id)
    assert (row.state, row.retries_left) == ("held", 0)
    assert 3 <= len(world.engine.launched) <= 5


def test_gang_on_a_missing_card_is_requeued(tmp_path, database) -> None:
    world = World(tmp_path, "1x2", database)
    job_id = world.submit(gpus=2)
    world.settle()
    from gpusquad.model.cluster import grid

    world.cluster = grid("1x3")
    cards = tuple(type(card)(f"new-{i}") for i, card in enumerate(world.cluster.nodes[0].cards))
    world.cluster = type(world.cluster)((type(world.cluster.nodes[0])("n0", cards, 10**6, 2**40),))
    world.scheduler = world.make()
    world.engine.report(AttemptStarted(job_id, 0, (1,)))
    world.settle()
    row = world.scheduler.row(job_id)
    assert (row.state, row.attempt) == ("running", 1)
    assert world.engine.launched[-1][3] == ("new-0", "new-1")


def test_gang_of_a_faulty_card_is_requeued_after_a_restart(world: World) -> None:
    job_id = world.submit(gpus=2)
    world.settle()
    world.engine.slow_to_stop = True
    card = world.scheduler.node_service.cards()[0].id
    world.scheduler.watcher.hear({"kind": "card_fault", "card": card, "cause": "Xid 79"})
    world.settle()
    world.scheduler = world.make()
    world.engine.end(job_id, 0, "stopped")
    world.settle()
    row = world.scheduler.row(job_id)
    assert (row.state, row.attempt) == ("pending", 1), "the card is still out of use"
    world.scheduler.node_service.uncordon(card)
    world.settle()
    assert world.state(job_id) == "running"


def without_the_last_card(cluster: Cluster) -> Cluster:
    """Remove the last card of the first node."""
    first, *others = cluster.nodes
    return Cluster((replace(first, cards=first.cards[:-1]), *others))


def test_stopping_gang_is_stopped_again_after_a_restart_without_its_card(world: World) -> None:
    job_id = world.submit(gpus=2)
    world.settle()
    world.engine.slow_to_stop = True
    world.scheduler.cancel(job_id, ADA)
    world.cluster = without_the_last_card(world.cluster)
    world.scheduler, world.engine.slow_to_stop = world.make(), False
    world.engine.report(AttemptStarted(job_id, 0, (1,)))
    world.settle()
    assert world.state(job_id) == "cancelled"


def test_no_job_starts_beside_a_gang_with_a_missing_card_until_it_ends(world: World) -> None:
    gang, pending = world.submit(gpus=2), world.submit(gpus=1)
    world.settle()
    world.engine.slow_to_stop = True
    world.cluster = without_the_last_card(world.cluster)
    world.scheduler = world.make()
    world.engine.report(AttemptStarted(gang, 0, (1,)))
    world.settle()
    assert (world.state(gang), world.state(pending)) == ("lost", "pending")
    (card,) = world.scheduler.node_service.cards()
    assert (card.state, "still runs here" in card.cause) == ("drained", True)
    assert not world.scheduler.node_service.nodes()[0].drained
    world.engine.end(gang, 0, "stopped")
    world.settle()
    assert world.state(pending) == "running"


def test_gang_that_no_longer_fits_the_cluster_fails_with_a_reason(world: World) -> None:
    job_id = world.submit(gpus=2)
    world.settle()
    world.cluster = without_the_last_card(world.cluster)
    world.scheduler = world.make()
    world.engine.report(AttemptStarted(job_id, 0, (1,)))
    world.settle()
    row = world.scheduler.row(job_id)
    assert (row.state, row.attempt) == ("failed", 1)
    assert "the largest node has 1" in row.cause


@pytest.mark.parametrize("what", ["cancel", "hold"])
def test_job_refused_after_a_restart_can_be_cancelled_and_held(world: World, what: str) -> None:
    first, second = world.submit(gpus=2), world.submit(gpus=2)
    world.settle()
    world.engine.end(first, 0)
    world.cluster = without_the_last_card(world.cluster)
    world.scheduler = world.make()
    getattr(world.scheduler, what)(second, ADA)
    world.settle()
    assert world.state(second) == ("cancelled" if what == "cancel" else "failed")


def test_tenant_limit_does_not_fail_a_pending_job_at_a_restart(world: World) -> None:
    first, waiting = world.submit(gpus=2), world.submit(gpus=2)
    world.settle()
    for limit in (1, None):
        with world.database.write() as c:
            people.put_tenant(c, TenantRow("default", limit_gpus=limit))
        world.scheduler = world.make()
        world.settle()
        assert (world.state(first), world.state(waiting)) == ("running", "pending")
    world.engine.end(first, 0)
    world.settle()
    assert world.state(waiting) == "running"


def test_job_too_large_for_the_cluster_fails_despite_a_tenant_limit(world: World) -> None:
    """Otherwise it would wait for the limit to be lifted, and then for cards that do not exist."""
    waiting = world.submit(gpus=2)
    with world.database.write() as c:
        people.put_tenant(c, TenantRow("default", limit_gpus=1))
    world.cluster = grid("1x1")
    world.scheduler = world.make()
    world.settle()
    assert world.state(waiting) == "failed"
    assert "requests 2 GPUs on one node; the largest node has 1" in last_cause(world, waiting)


def test_job_submitted_before_a_crash_does_not_wait_for_a_finished_dependency(world: World) -> None:
    first = world.submit(name="first")
    world.settle()
    world.engine.end(first, 0)
    world.settle()
    on_success, on_failure = world.submit(after=[first]), world.submit(after=[{"job": first, "on": "failure"}])
    world.scheduler = world.make()
    world.settle()
    assert (world.state(on_success), world.state(on_failure)) == ("running", "cancelled")


def test_sequence_numbers_continue_after_a_restart(world: World) -> None:
    world.clock.at_us = 10**9
    first = world.submit(gpus=2)
    world.settle()
    second = world.submit(gpus=2)
    assert world.scheduler.row(second).sequence > world.scheduler.row(first).sequence
    again = world.make()
    third = again.submit(expand(check({"command": ["true"], "gpus": 1, "estimate": 1})), ADA)[0]
    assert third.sequence > world.scheduler.row(second).sequence


def test_usage_that_fair_share_orders_by_survives_a_restart(world: World) -> None:
    world.engine.run_us = {"old": 2 * 3600 * SECOND_US}
    world.submit(name="old", gpus=1)
    world.submit(name="new", gpus=1)
    world.settle()
    world.at(2 * 3600 * SECOND_US)
    world.at(86_400 * SECOND_US)
    before = _decayed_gpu_s(world)
    assert before == pytest.approx(26 * 3600, rel=0.1)
    world.scheduler = world.make()
    assert _decayed_gpu_s(world) == pytest.approx(before, rel=0.05)


def _decayed_gpu_s(world: World) -> float:
    return world.scheduler._context.state.accounts.view("default", world.clock.now_us()).decayed_gpu_s
