"""The scheduler's public interface, in virtual time with a real store: jobs from submission to end."""

from __future__ import annotations

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.server.answers import JobChange, Who
from gpusquad.server.errors import Conflict, Forbidden, JobRefused
from gpusquad.server.notify.rules import is_news
from gpusquad.spec.check import check
from gpusquad.spec.expand import expand
from gpusquad.store import attempts, events, people
from gpusquad.store.people import TenantRow
from tests.server.services.world import ADA, SECOND_US, World, kinds, last_cause


@pytest.fixture
def world(tmp_path, database) -> World:
    return World(tmp_path, "1x2", database)


# -- from submission to end ----------------------------------------------------------------------------------------


def test_finished_job_has_times_events_and_attempt_stored(world: World) -> None:
    job_id = world.submit(name="one", gpus=2)
    world.engine.run_us["one"] = 5 * SECOND_US
    world.at(SECOND_US)
    assert world.state(job_id) == "running"
    world.at(7 * SECOND_US)
    row = world.scheduler.row(job_id)
    assert (row.state, row.started_us, row.ended_us) == ("succeeded", SECOND_US, 7 * SECOND_US)
    assert kinds(world, job_id) == ["pending", "starting", "running", "succeeded"]
    with world.database.read() as c:
        (attempt,) = attempts.of_job(c, job_id)
    assert (attempt.started_us, attempt.ended_us, attempt.gpu_milli) == (SECOND_US, 7 * SECOND_US, 2000)
    assert world.scheduler._context.rows == {}


def test_infeasible_job_is_refused_without_events(world: World) -> None:
    with pytest.raises(JobRefused) as refused:
        world.submit(gpus=3)
    assert refused.value.code == "never_fits"
    with world.database.read() as c:
        assert events.last_id(c) == 0


def test_resubmission_with_the_same_key_returns_the_same_jobs(world: World) -> None:
    specs = expand(check({"command": ["true"], "gpus": 1, "estimate": 1}))
    first = world.scheduler.submit(specs, ADA, None, "k1")
    again = world.scheduler.submit(specs, ADA, None, "k1")
    other = world.scheduler.submit(specs, ADA, None, "k2")
    assert [row.id for row in first] == [row.id for row in again] != [row.id for row in other]


def test_key_of_another_submission_is_refused(world: World) -> None:
    world.scheduler.submit(expand(check({"command": ["true"], "gpus": 1, "estimate": 1})), ADA, None, "k1")
    with pytest.raises(Conflict, match="another submission"):
        world.scheduler.submit(expand(check({"command": ["false"], "gpus": 1, "estimate": 1})), ADA, None, "k1")


def test_stored_but_unqueued_submission_is_queued_by_its_retry(world: World) -> None:
    specs = expand(check({"command": ["true"], "gpus": 1, "estimate": 1}))
    (row,) = world.scheduler.submit(specs, ADA, None, "k1")
    world.scheduler._context.loop._inbox.clear()  # as if the store's answer had been lost
    world.settle()
    assert world.state(row.id) == "pending"
    world.scheduler.submit(specs, ADA, None, "k1")
    world.settle()
    assert world.state(row.id) == "running"
    world.engine.end(row.id, 0)
    world.settle()
    world.scheduler.submit(specs, ADA, None, "k1")
    world.settle()
    assert world.state(row.id) == "succeeded"
    assert len(world.engine.launched) == 1


def test_retried_submission_is_queued_once_in_either_order(world: World) -> None:
    specs = expand(check({"command": ["true"], "gpus": 1, "estimate": 1}))
    (row,) = world.scheduler.submit(specs, ADA, None, "k1")
    first = world.scheduler._context.loop._inbox.pop()
    world.scheduler.submit(specs, ADA, None, "k1")
    world.settle()
    world.scheduler._context.loop.post(first)
    world.settle()
    assert (world.state(row.id), world.scheduler.queries.unfinished()[0].state) == ("running", "running")


def test_launch_exception_fails_the_attempt_and_frees_the_cards(world: World, monkeypatch) -> None:
    def no_processes(launch) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(world.engine, "launch", no_processes)
        job_id = world.submit(gpus=2)
        world.settle()
    row = world.scheduler.row(job_id)
    assert (row.state, row.cause) == ("failed", "could not be started: can't start new thread")
    assert world.state(world.submit(gpus=2)) == "pending"
    world.settle()
    assert world.scheduler.queries.unfinished()[0].state == "running"


def test_failing_listener_does_not_affect_jobs_or_other_listeners(world: World) -> None:
    received = []
    world.scheduler.on_event(lambda batch: 1 / 0)
    world.scheduler.on_event(received.extend)
    job_id = world.submit()
    world.settle()
    assert world.state(job_id) == "running"
    assert [event.kind for _, event in received] == ["pending", "starting", "running"]


def test_submission_is_refused_beyond_max_pending(world: World) -> None:
    with world.database.write() as c:
        people.put_tenant(c, TenantRow("default", max_pending=2))
    world.scheduler.reload_tenants()
    world.submit()
    world.submit()
    with pytest.raises(JobRefused, match="2 unfinished jobs of at most 2"):
        world.submit()


def test_refusal_beyond_max_pending_uses_the_singular_for_one_job(world: World) -> None:
    with world.database.write() as c:
        people.put_tenant(c, TenantRow("default", max_pending=1))
    world.scheduler.reload_tenants()
    world.submit()
    with pytest.raises(JobRefused, match="1 unfinished job of at most 1"):
        world.submit()


def test_submission_is_refused_for_another_or_unknown_tenant(world: World) -> None:
    with pytest.raises(Forbidden):
        world.submit(Who("bob", "default", "member"), tenant="other")
    with pytest.raises(Invalid, match="does not exist"):
        world.submit(tenant="other")


def test_failed_gang_is_retried_with_growing_delay_until_retries_are_used(world: World) -> None:
    job_id = world.submit(name="bad", retries={"count": 2, "backoff": 0})
    world.engine.run_us["bad"], world.engine.ends_as["bad"] = SECOND_US, "failed"
    world.at(0)
    world.at(SECOND_US)
    row = world.scheduler.row(job_id)
    assert (row.attempt, row.retries_left) == (1, 1)
    for at_s in range(2, 200):
        world.at(at_s * SECOND_US)
    row = world.scheduler.row(job_id)
    assert (row.state, row.attempt, row.retries_left) == ("failed", 2, 0)
    starts = [at_us for at_us, *_ in world.engine.launched]
    assert starts[2] - starts[1] > starts[1] - starts[0]


# -- cancel, hold, update ------------------------------------------------------------------------------------------


def test_cancel_ends_pending_and_running_jobs_and_is_refused_for_finished(world: World) -> None:
    running, waiting = world.submit(gpus=2), world.submit(gpus=2)
    world.settle()
    world.scheduler.cancel(waiting, ADA)
    world.scheduler.cancel(running, ADA)
    world.settle()
    assert {world.state(running), world.state(waiting)} == {"cancelled"}
    assert last_cause(world, running) == "cancelled by ada"
    with pytest.raises(Conflict, match="has ended"):
        world.scheduler.cancel(running, ADA)


def test_end_of_a_cancelled_job_names_who_cancelled_it(world: World) -> None:
    running = world.submit(gpus=2)
    world.settle()
    world.scheduler.cancel(running, ADA)
    world.settle()
    with world.database.read() as c:
        (end,) = [one for one in events.of_job(c, running) if one.kind == "cancelled"]
    assert end.actor == ADA.user
    assert not is_news("cancelled", world.scheduler.row(running), end), "its user knows"


def test_second_cancel_of_a_stopping_job_has_no_effect(world: World) -> None:
    job_id = world.submit(gpus=1)
    world.settle()
    world.engine.slow_to_stop = True
    world.scheduler.cancel(job_id, ADA)
    world.scheduler.cancel(job_id, ADA)
    assert world.state(job_id) == "stopping"
    assert len(world.engine.stopped) == 1
    world.engine.end(job_id, 0, "stopped")
    world.settle()
    assert world.state(job_id) == "cancelled"


def test_held_job_is_skipped_until_it_is_released(world: World) -> None:
    first, held, third = (world.submit(name=name, gpus=2) for name in ("first", "held", "third"))
    world.settle()
    world.scheduler.hold(held, ADA)
    world.engine.end(first, 0)
    world.settle()
    assert (world.state(held), world.state(third)) == ("held", "running")
    assert [reason.code for reason in world.scheduler.queries.why(held).reasons] == ["held"]
    world.scheduler.release(held, ADA)
    world.engine.end(third, 0)
    world.settle()
    assert world.state(held) == "running"


def test_update_changes_priority_slo_and_limit(world: World) -> None:
    first, second, third = (world.submit(name=name, gpus=2) for name in ("first", "second", "third"))
    world.settle()
    world.scheduler.update(third, JobChange(priority="urgent"), ADA)
    row = world.scheduler.update(first, JobChange(slo={"p99": "20ms"}, limit_us=30 * SECOND_US), ADA)
    assert row.core["slo"] == {"latency": 0.02}
    world.at(31 * SECOND_US)
    assert (world.state(first), world.state(third), world.state(second)) == ("timed_out", "running", "pending")
    with pytest.raises(Invalid):
        world.scheduler.update(second, JobChange(priority="very"), ADA)


# -- dependencies --------------------------------------------------------------------------------------------------


def test_dependency_by_name_holds_starts_or_cancels_the_job(world: World) -> None:
    first = world.submit(name="prepare")
    on_success = world.submit(name="train", after=["prepare"])
    on_failure = world.submit(name="clean", after=[{"job": "prepare", "on": "failure"}])
    world.settle()
    assert world.state(on_success) == "held"
    world.engine.end(first, 0)
    world.settle()
    assert (world.state(on_success), world.state(on_failure)) == ("running", "cancelled")
    late = world.submit(name="late", after=[first])
    world.settle()
    assert world.state(late) == "running"


def test_dependents_are_cancelled_transitively_when_the_first_job_fails(world: World) -> None:
    first = world.submit(name="a")
    second = world.submit(name="b", after=["a"])
    third = world.submit(name="c", after=["b"])
    world.settle()
    world.engine.end(first, 0, "failed", "exit code 3")
    world.settle()
    assert [world.state(j) for j in (first, second, third)] == ["failed", "cancelled", "cancelled"]
    with pytest.raises(Invalid, match="no job 'nobody'"):
        world.submit(after=["nobody"])


def test_long_dependency_chain_is_cancelled_with_its_first_job(world: World) -> None:
    chain = [world.submit(name="0")]
    for i in range(400):
        chain.append(world.submit(after=[chain[i]]))
    world.settle()
    world.scheduler.cancel(chain[0], ADA)
    world.settle()
    assert {world.state(job_id) for job_id in chain} == {"cancelled"}
    assert world.scheduler.queries.unfinished() == []
