"""A job's place in the queue counts from when it became eligible: submitted, released, with its dependencies fulfilled,
and retried if it failed."""

from __future__ import annotations

from typing import Any

import pytest

from gpusquad.model.job import Slo
from gpusquad.server.answers import JobChange
from gpusquad.server.services.runtime.records import job_of
from gpusquad.server.services.scheduler import Scheduler
from gpusquad.store.database import Database
from tests.databases import sqlite_schema
from tests.server.rig import Rig
from tests.server.services.world import ADA, SECOND_US, VirtualClock, World

RUN_S = 300


@pytest.fixture(params=["standard", "fifo"])
def world(request, tmp_path, database) -> World:
    return World(tmp_path, "1x8", database, mode=request.param)


def submit_at(world: World, at_s: int, **file: Any) -> str:
    world.clock.at_us = at_s * SECOND_US
    file = {"gpus": 8, "estimate": 60} | file
    job_id = world.submit(ADA, **file)
    world.settle()
    return job_id


def at(world: World, at_s: int) -> None:
    world.at(at_s * SECOND_US)


def run_all(world: World, until_s: int) -> None:
    for at_s in range(world.clock.at_us // SECOND_US, until_s + 1):
        at(world, at_s)


def eligible_s(world: World, job_id: str) -> float:
    return job_of(world.scheduler.row(job_id)).eligible_us / SECOND_US


def started_s(world: World, job_id: str) -> float | None:
    started_us = world.scheduler.row(job_id).started_us
    return None if started_us is None else started_us / SECOND_US


def order(world: World) -> list[str]:
    return [entry.job_id for entry in world.scheduler.queries.queue()]


def blocked(world: World) -> str:
    """A run that holds all cards until ``RUN_S``."""
    world.engine.run_us |= {"run": RUN_S * SECOND_US, "head": 60 * SECOND_US, "rival": 60 * SECOND_US}
    return submit_at(world, 0, name="run", estimate=RUN_S)


# -- held jobs -----------------------------------------------------------------------------------------------------


def test_released_jobs_do_not_delay_a_job_with_a_reservation(world: World) -> None:
    blocked(world)
    rivals = [submit_at(world, 1, name="rival") for _ in range(5)]
    for rival in rivals:
        world.scheduler.hold(rival, ADA)
    head = submit_at(world, 10, name="head")
    at(world, 20)
    for rival in rivals:
        world.scheduler.release(rival, ADA)
    at(world, 21)
    assert order(world) == [head, *rivals]
    run_all(world, RUN_S)
    assert started_s(world, head) == RUN_S


def test_released_job_counts_from_its_release_and_keeps_its_submit_time(world: World) -> None:
    blocked(world)
    job_id = submit_at(world, 1)
    assert eligible_s(world, job_id) == 1
    world.scheduler.hold(job_id, ADA)
    at(world, 50)
    world.scheduler.release(job_id, ADA)
    at(world, 60)
    assert eligible_s(world, job_id) == 50
    assert world.scheduler.row(job_id).submitted_us == SECOND_US


def test_release_of_a_job_that_no_user_holds_does_not_move_it(world: World) -> None:
    run = blocked(world)
    job_id = submit_at(world, 1, after=[{"job": run, "on": "any"}])
    at(world, 50)
    world.scheduler.release(job_id, ADA)
    at(world, 51)
    assert eligible_s(world, job_id) == 1


def test_update_keeps_the_later_place(world: World) -> None:
    blocked(world)
    job_id, head = submit_at(world, 1), submit_at(world, 2)
    world.scheduler.hold(job_id, ADA)
    at(world, 50)
    world.scheduler.release(job_id, ADA)
    world.scheduler.update(job_id, JobChange(estimate_us=SECOND_US, slo={"deadline": "2h"}), ADA)
    at(world, 60)
    assert eligible_s(world, job_id) == 50
    assert order(world) == [head, job_id]
    assert job_of(world.scheduler.row(job_id)).slo == Slo(deadline_us=(1 + 7200) * SECOND_US)  # from its submission


def test_restart_keeps_the_eligible_time_and_the_order(world: World) -> None:
    blocked(world)
    job_id, head = submit_at(world, 1), submit_at(world, 2)
    world.scheduler.hold(job_id, ADA)
    at(world, 50)
    world.scheduler.release(job_id, ADA)
    at(world, 51)
    world.clock.at_us = 100 * SECOND_US
    world.scheduler = world.make()
    world.settle()
    assert eligible_s(world, job_id) == 50
    assert order(world) == [head, job_id]


# -- dependencies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", ["success", "any", "failure"])
def test_dependent_jobs_do_not_delay_a_job_with_a_reservation(world: World, on: str) -> None:
    blocked(world)
    world.engine.run_us["first"] = 5 * RUN_S * SECOND_US
    gate = submit_at(world, 1, name="first")  # pending behind the run
    rivals = [submit_at(world, 2, name="rival", after=[{"job": gate, "on": on}]) for _ in range(3)]
    head = submit_at(world, 10, name="head")
    at(world, 20)
    world.scheduler.cancel(gate, ADA)
    at(world, 21)
    if on == "success":
        assert {world.state(rival) for rival in rivals} == {"cancelled"}
    else:
        assert order(world) == [head, *rivals]
        assert {eligible_s(world, rival) for rival in rivals} == {20}
    run_all(world, RUN_S)
    assert started_s(world, head) == RUN_S


def test_place_counts_from_the_success_of_the_last_dependency(world: World) -> None:
    world.engine.run_us |= {"one": 10 * SECOND_US, "two": 20 * SECOND_US, "wide": RUN_S * SECOND_US}
    one, two = (submit_at(world, 0, name=name, gpus=1, estimate=30) for name in ("one", "two"))
    job_id = submit_at(world, 1, after=[one, two])
    head = submit_at(world, 5)
    run_all(world, 25)
    assert eligible_s(world, job_id) == 20
    assert started_s(world, head) == 20
    assert order(world) == [job_id]


def test_dependency_that_ends_while_the_service_is_down_counts_from_the_restart(world: World) -> None:
    run = blocked(world)
    job_id, head = submit_at(world, 1, after=[run]), submit_at(world, 2)
    world.scheduler = world.make()
    world.clock.at_us = (RUN_S + 5) * SECOND_US
    world.engine.end(run, 0)
    world.settle()
    assert eligible_s(world, job_id) == RUN_S + 5
    assert world.state(head) == "running"


# -- retries -------------------------------------------------------------------------------------------------------


def test_failing_job_with_retries_delays_a_reservation_at_most_once(world: World) -> None:
    world.engine.run_us |= {"bad": 8 * SECOND_US, "head": 60 * SECOND_US}
    world.engine.ends_as["bad"] = "failed"
    bad = submit_at(world, 0, name="bad", estimate=60, retries={"count": 50, "backoff": 0})
    head = submit_at(world, 1, name="head")
    run_all(world, 7)
    assert started_s(world, head) is None
    run_all(world, 8)
    assert started_s(world, head) == 8
    assert eligible_s(world, bad) == 8


def test_retry_counts_from_the_end_of_its_backoff(world: World) -> None:
    world.engine.run_us |= {"bad": 8 * SECOND_US, "head": 60 * SECOND_US}
    world.engine.ends_as["bad"] = "failed"
    bad = submit_at(world, 0, name="bad", retries={"count": 3, "backoff": 30})
    submit_at(world, 1, name="head")
    before = submit_at(world, 2, name="before")
    run_all(world, 30)
    assert world.state(bad) == "held"
    assert eligible_s(world, bad) == 38
    run_all(world, 45)
    after = submit_at(world, 46, name="after")
    assert order(world) == [before, bad, after]


def test_restart_keeps_the_place_of_a_retry(world: World) -> None:
    world.engine.run_us |= {"bad": 8 * SECOND_US, "head": 60 * SECOND_US}
    world.engine.ends_as["bad"] = "failed"
    bad = submit_at(world, 0, name="bad", retries={"count": 3, "backoff": 30})
    submit_at(world, 1, name="head")
    before = submit_at(world, 2, name="before")
    run_all(world, 20)
    world.scheduler = world.make()
    run_all(world, 45)
    assert eligible_s(world, bad) == 38
    assert order(world) == [before, bad]


def test_lost_job_keeps_its_place(world: World) -> None:
    lost, head = submit_at(world, 1, name="lost"), submit_at(world, 2)
    world.clock.at_us = 100 * SECOND_US
    world.engine.end(lost, 0, "lost", "its supervisor died")
    world.settle()
    assert (world.state(lost), world.state(head)) == ("running", "pending")
    assert eligible_s(world, lost) == 1


def test_job_that_is_held_because_it_is_lost_again_and_again_keeps_its_place(world: World) -> None:
    job_id = submit_at(world, 1, name="lost")
    for at_s in range(2, 30):
        at(world, at_s)
        world.engine.end(job_id, world.scheduler.row(job_id).attempt, "lost", "no space left on device")
    world.settle()
    assert world.state(job_id) == "held"
    assert eligible_s(world, job_id) == 1


def test_preempted_job_keeps_its_place(world: World) -> None:
    world.scheduler.policy_service.set({"preemption": {"by": "priority", "min_run_s": 0}}, ADA)
    low = submit_at(world, 1, name="low", priority="low", checkpoint={"every": 1}, estimate=100)
    head = submit_at(world, 5, priority="low")
    high = submit_at(world, 10, priority="high")
    assert (world.state(low), world.state(high)) == ("pending", "running")
    assert eligible_s(world, low) == 1
    assert order(world) == [low, head]


def test_preemption_after_a_release_keeps_the_later_place(world: World) -> None:
    world.scheduler.policy_service.set({"preemption": {"by": "priority", "min_run_s": 0}}, ADA)
    low = submit_at(world, 1, name="low", priority="low", checkpoint={"every": 1}, estimate=100)
    high = submit_at(world, 10, priority="high")
    world.scheduler.hold(low, ADA)
    at(world, 20)
    world.scheduler.release(low, ADA)
    world.engine.end(high, 0)
    at(world, 21)
    assert world.state(low) == "running"
    submit_at(world, 40, priority="high")
    assert (world.state(low), eligible_s(world, low)) == ("pending", 20)
    job = job_of(world.scheduler.row(low))
    assert job.ran_before_us == 9 * SECOND_US


def test_maximum_wait_counts_from_the_release_without_earlier_runs(world: World) -> None:
    """Under an order that ages, a hold is no wait, and a run before it does not shorten the wait after it."""
    world.scheduler.policy_service.set({"order": "sjf:max_wait_s=100"}, ADA)
    blocked(world)
    long = submit_at(world, 1, estimate=500)
    world.scheduler.hold(long, ADA)
    at(world, 150)
    world.scheduler.release(long, ADA)
    short = submit_at(world, 160, estimate=10)
    at(world, 240)
    assert order(world) == [short, long]
    at(world, 252)
    submit_at(world, 253, estimate=10)
    assert order(world)[0] == long


# -- API -----------------------------------------------------------------------------------------------------------


def test_api_shows_the_eligible_time_beside_the_submit_time(tmp_path) -> None:
    path, clock, made = tmp_path / "api.db", VirtualClock(SECOND_US), []

    def make(database: Database, clock: Any) -> Scheduler:
        made.append(World(tmp_path, "1x8", database, clock=clock))
        return made[0].scheduler

    path.write_bytes(sqlite_schema())
    rig = Rig(tmp_path, Database(path), make_scheduler=make, clock=clock)
    world = made[0]
    world.submit(gpus=8, estimate=600)
    job_id = submit_at(world, 2, name="released")
    assert rig.get(f"jobs/{job_id}", "root").json()["eligible_s"] == 2
    assert rig.post(f"jobs/{job_id}/hold", "root").json()["eligible_s"] is None
    head = submit_at(world, 10, name="head")
    at(world, 20)
    released = rig.post(f"jobs/{job_id}/release", "root").json()
    at(world, 21)
    assert (released["submitted_s"], rig.get(f"jobs/{job_id}", "root").json()["eligible_s"]) == (2, 20)
    assert [(row["id"], row["eligible_s"]) for row in rig.get("queue", "root").json()["items"]] == [
        (head, 10), (job_id, 20)
    ]  # fmt: skip
