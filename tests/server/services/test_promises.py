"""Promised starts are stored with the actual ones, with what delayed them and with the true head delay."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.server.answers import JobChange, Who
from gpusquad.server.services.queries.start_report import start_report
from gpusquad.store import events, promises
from gpusquad.store.events import EventRow
from gpusquad.store.promises import PromiseRow
from tests.server.services.world import ADA, SECOND_US, World, kinds

BOB = Who("bob", "default", "member")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, "1x8", mode="standard")


def run(world: World, name: str, gpus: int, estimate: int, actual_s: float, who: Who = ADA, **more) -> str:
    world.engine.run_us[name] = round(actual_s * SECOND_US)
    job_id = world.submit(who, name=name, gpus=gpus, estimate=estimate, **more)
    world.settle()
    return job_id


def play(world: World, until_s: int) -> None:
    """Let the service wake as it would by itself."""
    while True:
        end_us, wake_us = world.engine.next_end_us(), world.settle()
        at_us = min(us for us in (end_us, wake_us, until_s * SECOND_US) if us is not None)
        if at_us >= until_s * SECOND_US:
            world.at(until_s * SECOND_US)
            return
        world.at(max(at_us, world.clock.at_us + 1))


def rows(world: World) -> dict[str, PromiseRow]:
    with world.database.read() as c:
        return {row.name: row for row in promises.settled(c, 0)}


def test_kept_promise_is_stored_with_its_start(world: World) -> None:
    run(world, "ahead", 6, 100, 90)
    run(world, "head", 8, 50, 50)
    play(world, 200)
    row = rows(world)["head"]
    assert (row.promised_us, row.started_us) == (100 * SECOND_US, 90 * SECOND_US)
    assert row.cause == ""
    report = start_report([row], ADA)
    assert (report["count"], report["kept"], report["late"]) == (1, 1, 0)


def test_guest_that_overstayed_is_named_with_its_owner(world: World) -> None:
    run(world, "ahead", 6, 100, 100)
    run(world, "head", 8, 50, 50)
    guest = run(world, "guest", 2, 60, 400, BOB)
    play(world, 1000)
    row = rows(world)["head"]
    assert (row.promised_us, row.started_us) == (100 * SECOND_US, 400 * SECOND_US)
    assert (row.cause, row.cause_job, row.cause_user) == ("guest_overstayed", guest, "bob")
    assert row.head_delay_us == 300 * SECOND_US, "it would have fitted when the job ahead ended"
    report = start_report([row], ADA)
    assert (report["late"], report["worst_s"], report["heads"]["worst_s"]) == (1, 300.0, 300.0)
    assert report["latest"][0]["cause_job"] == guest


def test_overstayed_guest_is_named_by_why_while_a_job_ahead_still_runs(world: World) -> None:
    run(world, "ahead", 6, 100, 1000)
    head = run(world, "head", 8, 50, 50)
    guest = run(world, "guest", 2, 60, 2000, BOB)
    play(world, 80)
    reasons = {str(reason.code): reason for reason in world.scheduler.queries.why(head).reasons}
    assert reasons["overstayed"].who == (guest,)
    assert "of bob (tenant default)" in reasons["overstayed"].message


def test_reason_of_a_job_behind_a_late_reservation_is_named_and_current(world: World) -> None:
    run(world, "ahead", 6, 100, 100)
    head = run(world, "head", 8, 50, 50)
    run(world, "guest", 2, 60, 9000, BOB)
    behind = run(world, "behind", 4, 10, 10)
    play(world, 300)
    guest = next(row.id for row in world.scheduler.queries.unfinished() if row.name == "guest")
    world.scheduler.context.loop.call = lambda item: _call_here(world, item)  # type: ignore[method-assign]
    world.scheduler.update(guest, JobChange(estimate_us=9000 * SECOND_US), ADA)
    world.settle()
    [reason] = world.scheduler.queries.why(behind).reasons
    assert (str(reason.code), reason.who) == ("reserved", (head,))
    before = world.scheduler.queries.why(head).reasons[0].message
    world.clock.at_us += 30 * SECOND_US  # without a pass
    assert world.scheduler.queries.why(head).reasons[0].message != before
    entries = {entry.job_id: entry for entry in world.scheduler.queries.queue()}
    assert entries[head].message == world.scheduler.queries.why(head).reasons[0].message


def _call_here(world: World, item):
    results: list = []
    world.scheduler.context.loop.post(lambda: results.append(item()))
    world.settle()
    return results[0]


def test_job_ahead_that_overran_is_the_cause(world: World) -> None:
    ahead = run(world, "ahead", 6, 100, 500)
    run(world, "head", 8, 50, 50)
    play(world, 1000)
    row = rows(world)["head"]
    assert (row.cause, row.cause_job) == ("ahead_overran", ahead)
    assert row.head_delay_us == 0, "no job behind it delayed it"


def test_job_that_arrives_with_precedence_is_the_cause(world: World) -> None:
    run(world, "ahead", 8, 100, 100)
    run(world, "head", 8, 50, 50)
    urgent = run(world, "urgent", 8, 300, 300, priority="urgent")
    play(world, 1000)
    row = rows(world)["head"]
    assert row.started_us == 400 * SECOND_US
    assert (row.cause, row.cause_job) == ("arrived_ahead", urgent)


def test_lost_capacity_is_the_cause(world: World) -> None:
    run(world, "ahead", 6, 100, 100)
    run(world, "head", 8, 50, 50)
    node = world.cluster.nodes[0].id
    world.scheduler.node_service.drain(node, ADA, "")
    play(world, 300)
    world.scheduler.node_service.undrain(node)
    play(world, 600)
    row = rows(world)["head"]
    assert (row.cause, row.head_delay_us) == ("capacity_lost", None)


def test_promise_and_cause_survive_a_restart(world: World) -> None:
    run(world, "ahead", 6, 100, 100)
    head = run(world, "head", 8, 50, 50)
    guest = run(world, "guest", 2, 60, 4000, BOB)
    play(world, 300)
    world.engine.recovered = ()
    world.scheduler = world.make()
    world.settle()
    assert kinds(world, head).count("promised") == 1
    assert world.scheduler.queries.when(head).promised_us == 100 * SECOND_US
    assert rows(world) == {} or "head" not in rows(world)
    for (job_id, attempt), launch in list(world.engine.running.items()):
        if launch.name == "guest":
            world.engine.end(job_id, attempt)
    world.settle()
    row = rows(world)["head"]
    assert (row.promised_us, row.started_us) == (100 * SECOND_US, 300 * SECOND_US)
    assert (row.cause, row.cause_job) == ("guest_overstayed", guest)
    assert row.head_delay_us is None, "the guest delayed it before the restart, nobody knows since when"


def test_start_that_a_restart_delayed_is_not_blamed_on_lost_capacity(world: World) -> None:
    ahead = run(world, "ahead", 6, 100, 100)
    run(world, "head", 8, 50, 50)
    play(world, 90)
    world.engine.recovered = ()
    world.clock.at_us = 102 * SECOND_US
    world.scheduler = world.make()
    world.engine.end(ahead, 0)
    world.settle()
    row = rows(world)["head"]
    assert row.started_us == 102 * SECOND_US
    assert (row.cause, row.cause_job) == ("restarted", "")


def test_promise_to_a_held_job_is_withdrawn(world: World) -> None:
    run(world, "ahead", 6, 100, 1000)
    head = run(world, "head", 8, 50, 50)
    world.scheduler.context.loop.call = lambda item: _call_here(world, item)  # type: ignore[method-assign]
    world.scheduler.hold(head, ADA)
    world.settle()
    play(world, 500)
    world.scheduler.release(head, ADA)
    play(world, 2000)
    row = rows(world)["head"]
    assert row.promised_us is not None
    assert row.promised_us > 500 * SECOND_US, "it was promised a start again"
    assert kinds(world, head).count("promised") == 2


def test_jobs_of_other_tenants_are_not_named() -> None:
    row = PromiseRow("h", 0, "a", "ann", "head", 0, 0, 90 * SECOND_US, None, "guest_overstayed", "g", "bob", "b")
    [late] = start_report([row], Who("ann", "a", "member"))["latest"]
    assert (late["cause"], late["cause_job"], late["cause_user"]) == ("guest_overstayed", None, None)
    [late] = start_report([row], ADA)["latest"]
    assert (late["cause_job"], late["cause_user"], late["cause_tenant"]) == ("g", "bob", "b")


def late_events(world: World, job_id: str) -> list[EventRow]:
    with world.database.read() as c:
        return [event for event in events.of_job(c, job_id) if event.kind == "start_late"]


def test_reservation_that_has_passed_is_reported_once_with_its_cause(world: World) -> None:
    run(world, "ahead", 6, 100, 2000)
    head = run(world, "head", 8, 50, 50)
    play(world, 155)
    assert late_events(world, head) == [], "it is not late by more than a minute yet"
    play(world, 1500)
    (event,) = late_events(world, head)
    assert 160 * SECOND_US < event.at_us <= 240 * SECOND_US
    assert "was to start by 1970-01-01 00:01 UTC, now expected at" in event.cause
    assert event.data is not None
    assert (event.data["before_us"], event.data["code"]) == (100 * SECOND_US, "ahead_overran")


def test_late_start_is_not_reported_again_after_a_restart(world: World) -> None:
    run(world, "ahead", 6, 100, 2000)
    head = run(world, "head", 8, 50, 50)
    play(world, 1000)
    assert len(late_events(world, head)) == 1
    world.scheduler = world.make()
    play(world, 1500)
    assert len(late_events(world, head)) == 1


def test_job_that_starts_by_its_reservation_is_not_reported(world: World) -> None:
    run(world, "ahead", 6, 100, 100)
    head = run(world, "head", 8, 50, 50)
    play(world, 1000)
    assert late_events(world, head) == []
