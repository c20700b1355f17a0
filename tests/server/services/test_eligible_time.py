"""A job's place in the queue counts from when it became eligible: submitted, released, with its dependencies fulfilled,
and retried if it failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.observed import GangFound
from gpusquad.core.ports import AttemptEnded
from gpusquad.model.cluster import grid
from gpusquad.model.job import Job, Request, Role, Slo
from gpusquad.server.answers import JobChange
from gpusquad.server.errors import Conflict
from gpusquad.server.services.runtime.records import job_of
from gpusquad.server.services.scheduler import Scheduler
from gpusquad.store.database import Database
from tests.databases import sqlite_schema
from tests.server.rig import Rig
from tests.server.services.test_cluster_submissions import Cluster
from tests.server.services.world import ADA, SECOND_US, VirtualClock, World
from tests.strategies import examples

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


def test_release_of_a_job_that_nobody_holds_says_so_and_does_not_move_it(world: World) -> None:
    run = blocked(world)
    job_id = submit_at(world, 1, after=[{"job": run, "on": "any"}])
    at(world, 50)
    with pytest.raises(Conflict, match=f"it waits for the any of {run}"):
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


def test_job_that_is_lost_again_counts_from_its_next_attempt(world: World) -> None:
    lost = submit_at(world, 1, name="lost", gpus=8)
    behind = submit_at(world, 2, name="behind", gpus=8)
    at(world, 100)
    world.engine.end(lost, 0, "lost", "its supervisor died")
    world.settle()
    assert (world.state(lost), eligible_s(world, lost)) == ("running", 1)
    at(world, 700)
    world.engine.end(lost, 1, "lost", "its supervisor died")
    world.settle()
    assert (world.state(lost), world.state(behind)) == ("held", "running")
    assert eligible_s(world, lost) == 710


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


# -- any of these --------------------------------------------------------------------------------------------------


@st.composite
def rivals(draw: st.DrawFn) -> tuple[str, int, int]:
    """A job submitted before the head, and when it is released or its dependency is cancelled."""
    return draw(st.sampled_from(["hold", "after"])), draw(st.integers(1, 9)), draw(st.integers(11, RUN_S - 1))


@given(st.lists(rivals(), max_size=8), st.integers(11, RUN_S), st.sampled_from([0, 20, 120]))
@examples(10)
def test_reserved_job_starts_on_its_promise_whatever_earlier_jobs_do(
    several: list[tuple[str, int, int]], ran_s: int, backoff_s: int
) -> None:
    with TemporaryDirectory() as folder:
        world = World(Path(folder), "1x8", mode="standard")
        world.engine.run_us = {"bad": ran_s * SECOND_US}
        world.engine.ends_as["bad"] = "failed"
        submit_at(world, 0, name="bad", estimate=RUN_S, retries={"count": 50, "backoff": backoff_s})
        releases: dict[int, list[Callable[[], object]]] = {}
        for kind, submitted_s, released_s in sorted(several, key=lambda one: one[1]):
            gate = submit_at(world, submitted_s) if kind == "after" else ""
            rival = submit_at(world, submitted_s, after=[{"job": gate, "on": "any"}] if gate else [])
            if gate:
                end = partial(world.scheduler.cancel, gate, ADA)
                world.scheduler.hold(gate, ADA)
            else:
                end = partial(world.scheduler.release, rival, ADA)
                world.scheduler.hold(rival, ADA)
            releases.setdefault(released_s, []).append(end)
        head = submit_at(world, 10, name="head")
        promised_us = world.scheduler.queries.when(head).promised_us
        assert promised_us is not None
        for at_s in sorted({*releases, *range(20, RUN_S, 40), ran_s, RUN_S}):
            world.clock.at_us = at_s * SECOND_US
            for release in releases.get(at_s, ()):
                release()
            at(world, at_s)
        assert started_s(world, head) == ran_s
        assert ran_s * SECOND_US <= promised_us
        world.scheduler.close()


# -- Kubernetes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [True, False])
def test_pods_that_failed_and_are_recreated_are_queued_behind(tmp_path, fails: bool) -> None:
    cluster = Cluster(tmp_path, cluster=grid("1x8"))
    pods = [
        Job(name, (Role("worker", 8, Request(gpus=1)),), submitted_us=at_us)
        for name, at_us in (("bad", 1), ("head", 2))
    ]
    for job in pods:
        cluster.report(GangFound(job))
    for number in range(4 if fails else 1):
        cluster.clock.at_us = (100 * number + 90) * SECOND_US
        cluster.settle()
        running, waiting = ("bad", "head") if not fails or number % 2 == 0 else ("head", "bad")
        assert (cluster.state(running), cluster.state(waiting)) == ("running", "pending")
        attempt = cluster.scheduler.row(running).attempt
        cluster.engine.running.pop((running, attempt))
        cluster.report(AttemptEnded(running, attempt, "lost", "its pods are recreated", failed_by_itself=fails))
        cluster.report(GangFound(replace(pods[0], submitted_us=cluster.clock.at_us)))  # the pods of the next attempt
    assert job_of(cluster.scheduler.row("bad")).submitted_us == 1
    assert (eligible_s(cluster, "bad") > 1) == fails
    before = job_of(cluster.scheduler.row("bad"))
    cluster.scheduler = cluster.make()
    assert cluster.scheduler.context.job("bad") == before


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
