"""The scheduler as its callers see it, in virtual time over a real store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpusquad.core import driver
from gpusquad.core.hang import Rules
from gpusquad.core.ports import EngineStarted
from gpusquad.model.cluster import Cluster
from gpusquad.model.errors import Invalid
from gpusquad.registry import create
from gpusquad.server.answers import Change, Who
from gpusquad.server.errors import Conflict, Forbidden, Refused
from gpusquad.spec.check import check
from gpusquad.spec.expand import expand
from gpusquad.store import attempts, events, people
from gpusquad.store.people import TenantRow
from tests.server.services.world import ADA, SECOND_US, World


@pytest.fixture
def world(tmp_path, database) -> World:
    return World(tmp_path, "1x2", database)


def kinds(world: World, job_id: str) -> list[str]:
    with world.database.read() as c:
        return [row.kind for row in events.of_job(c, job_id)]


def last(world: World, job_id: str) -> str:
    return world.scheduler.row(job_id).cause


# -- from submission to the end ------------------------------------------------------------------------------------


def test_a_job_runs_and_its_story_can_be_told(world: World) -> None:
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
    assert world.scheduler._desk.rows == {}


def test_what_can_never_fit_is_refused_and_leaves_no_trace(world: World) -> None:
    with pytest.raises(Refused) as refused:
        world.submit(gpus=3)
    assert refused.value.code == "never_fits"
    with world.database.read() as c:
        assert events.last_id(c) == 0


def test_the_same_key_is_the_same_submission(world: World) -> None:
    specs = expand(check({"command": ["true"], "gpus": 1, "estimate": 1}))
    first = world.scheduler.submit(specs, ADA, None, "k1")
    again = world.scheduler.submit(specs, ADA, None, "k1")
    other = world.scheduler.submit(specs, ADA, None, "k2")
    assert [row.id for row in first] == [row.id for row in again] != [row.id for row in other]


def test_a_submission_on_record_that_was_never_queued_is_queued_by_its_second_try(world: World) -> None:
    specs = expand(check({"command": ["true"], "gpus": 1, "estimate": 1}))
    (row,) = world.scheduler.submit(specs, ADA, None, "k1")
    world.scheduler._desk.loop._inbox.clear()  # as if the answer of the store had been lost
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


def test_two_tries_of_one_submission_queue_it_once_whichever_is_first(world: World) -> None:
    specs = expand(check({"command": ["true"], "gpus": 1, "estimate": 1}))
    (row,) = world.scheduler.submit(specs, ADA, None, "k1")
    first = world.scheduler._desk.loop._inbox.pop()
    world.scheduler.submit(specs, ADA, None, "k1")
    world.settle()
    world.scheduler._desk.loop.post(first)
    world.settle()
    assert (world.state(row.id), world.scheduler.unfinished()[0].state) == ("running", "running")


def test_a_launch_that_breaks_fails_the_attempt_and_frees_the_cards(world: World, monkeypatch) -> None:
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
    assert world.scheduler.unfinished()[0].state == "running"


def test_a_listener_that_fails_holds_nobody_up(world: World) -> None:
    heard = []
    world.scheduler.on_event(lambda told: 1 / 0)
    world.scheduler.on_event(heard.extend)
    job_id = world.submit()
    world.settle()
    assert world.state(job_id) == "running"
    assert [one.kind for _, one in heard] == ["pending", "starting", "running"]


def test_a_quota_bounds_unfinished_jobs(world: World) -> None:
    with world.database.write() as c:
        people.put_tenant(c, TenantRow("default", max_pending=2))
    world.scheduler.set_tenants()
    world.submit()
    world.submit()
    with pytest.raises(Refused, match="2 unfinished jobs of at most 2"):
        world.submit()


def test_a_member_submits_for_its_own_tenant_only(world: World) -> None:
    with pytest.raises(Forbidden):
        world.submit(Who("bob", "default", "member"), tenant="other")
    with pytest.raises(Invalid, match="no tenant"):
        world.submit(tenant="other")


def test_a_failed_gang_says_which_task_and_is_tried_again_later_each_time(world: World) -> None:
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


# -- cancel, hold, change ------------------------------------------------------------------------------------------


def test_cancelling_what_waits_runs_and_is_over(world: World) -> None:
    running, waiting = world.submit(gpus=2), world.submit(gpus=2)
    world.settle()
    world.scheduler.cancel(waiting, ADA)
    world.scheduler.cancel(running, ADA)
    world.settle()
    assert {world.state(running), world.state(waiting)} == {"cancelled"}
    assert last(world, running) == "cancelled by ada"
    with pytest.raises(Conflict, match="is over"):
        world.scheduler.cancel(running, ADA)


def test_a_second_cancel_while_it_stops_changes_nothing(world: World) -> None:
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


def test_a_held_job_lets_others_pass_until_released(world: World) -> None:
    first, held, third = (world.submit(name=name, gpus=2) for name in ("first", "held", "third"))
    world.settle()
    world.scheduler.hold(held, ADA)
    world.engine.end(first, 0)
    world.settle()
    assert (world.state(held), world.state(third)) == ("held", "running")
    assert [reason.code for reason in world.scheduler.why(held).reasons] == ["held"]
    world.scheduler.release(held, ADA)
    world.engine.end(third, 0)
    world.settle()
    assert world.state(held) == "running"


def test_priority_and_goal_of_a_job_can_change(world: World) -> None:
    first, second, third = (world.submit(name=name, gpus=2) for name in ("first", "second", "third"))
    world.settle()
    world.scheduler.update(third, Change(priority="urgent"), ADA)
    row = world.scheduler.update(first, Change(slo={"p99": "20ms"}, limit_us=30 * SECOND_US), ADA)
    assert row.core["slo"] == {"latency": 0.02}
    world.at(31 * SECOND_US)
    assert (world.state(first), world.state(third), world.state(second)) == ("timed_out", "running", "pending")
    with pytest.raises(Invalid):
        world.scheduler.update(second, Change(priority="very"), ADA)


# -- dependencies --------------------------------------------------------------------------------------------------


def test_jobs_wait_for_others_by_name(world: World) -> None:
    first = world.submit(name="prepare")
    then = world.submit(name="train", after=["prepare"])
    alas = world.submit(name="clean", after=[{"job": "prepare", "on": "failure"}])
    world.settle()
    assert world.state(then) == "held"
    world.engine.end(first, 0)
    world.settle()
    assert (world.state(then), world.state(alas)) == ("running", "cancelled")
    late = world.submit(name="late", after=[first])
    world.settle()
    assert world.state(late) == "running"


def test_a_chain_whose_first_job_fails_is_cancelled_to_its_end(world: World) -> None:
    first = world.submit(name="a")
    second = world.submit(name="b", after=["a"])
    third = world.submit(name="c", after=["b"])
    world.settle()
    world.engine.end(first, 0, "failed", "exit code 3")
    world.settle()
    assert [world.state(j) for j in (first, second, third)] == ["failed", "cancelled", "cancelled"]
    with pytest.raises(Invalid, match="no job 'nobody'"):
        world.submit(after=["nobody"])


def test_a_chain_of_any_length_is_cancelled_to_its_end(world: World) -> None:
    chain = [world.submit(name="0")]
    for i in range(400):
        chain.append(world.submit(after=[chain[i]]))
    world.settle()
    world.scheduler.cancel(chain[0], ADA)
    world.settle()
    assert {world.state(job_id) for job_id in chain} == {"cancelled"}
    assert world.scheduler.unfinished() == []


# -- preemption and faults -----------------------------------------------------------------------------------------


def test_a_preempted_job_comes_back_with_its_request_time(world: World) -> None:
    world.scheduler.set_policy({"preemption": {"by": "priority", "min_run_s": 0}}, ADA)
    low = world.submit(name="low", gpus=2, priority="low", checkpoint={"every": 1, "grace": 3}, estimate=100)
    world.settle()
    world.clock.at_us = 10 * SECOND_US
    high = world.submit(name="high", gpus=2, priority="high")
    world.settle()
    assert (world.state(low), world.state(high)) == ("pending", "running")
    row = world.scheduler.row(low)
    assert (row.attempt, row.preemptions, row.submitted_us, row.kept_us) == (1, 1, 0, 10 * SECOND_US)
    assert "high" in world.engine.stopped[0][3]
    world.engine.end(high, 0)
    world.settle()
    assert world.state(low) == "running"
    assert ("low", 1) in [(name, attempt) for _, name, attempt, _ in world.engine.launched]
    assert "preempting" in kinds(world, low)


def test_a_broken_card_sends_its_gang_back_and_spares_the_neighbour(world: World) -> None:
    one, two = world.submit(name="one", gpus=1), world.submit(name="two", gpus=1)
    world.settle()
    card = world.engine.launched[0][3][0]
    world.scheduler.watcher.hear({"kind": "card_fault", "card": card, "cause": "Xid 79"})
    world.settle()
    assert (world.state(one), world.state(two)) == ("pending", "running")
    assert {c.id: c.state for c in world.scheduler.cards()}[card] == "cordoned"
    assert "lost" in kinds(world, one)
    world.scheduler.watcher.hear({"kind": "card_ok", "card": card})
    world.settle()
    assert world.state(one) == "running"
    assert world.scheduler.row(one).attempt == 1


def sample(world: World, at_us: int, processes=(), runs=(), **of_card) -> None:
    world.clock.at_us = at_us
    cards = [
        {"id": card.id, "utilisation_ratio": 0.0, "processes": list(processes) if i == 0 else []} | of_card
        for i, card in enumerate(world.scheduler.cards())
    ]
    world.scheduler.watcher.hear({"kind": "samples", "at_us": at_us, "cards": cards, "runs": list(runs)})
    world.settle()


def test_cards_that_came_after_the_start_are_left_alone(world: World) -> None:
    for kind in ("card_fault", "card_ok"):
        world.scheduler.watcher.hear({"kind": kind, "card": "new", "cause": "Xid 79"})
    world.scheduler._machines.taken_outside("new", "held by somebody")
    world.settle()
    assert [card.state for card in world.scheduler.cards()] == ["free", "free"]


def test_progress_is_the_same_in_memory_and_on_record(world: World) -> None:
    job_id = world.submit(gpus=1)
    world.settle()
    run = {"job": job_id, "attempt": 0, "step": 3, "total": 4, "progress_at_us": 1}
    sample(world, 20 * SECOND_US, runs=[run])
    assert world.scheduler.row(job_id).progress["ratio"] == 0.75
    assert world.scheduler.unfinished() == [world.scheduler.row(job_id)]
    sample(world, 40 * SECOND_US, runs=[run | {"attempt": 1, "step": 4}])
    assert world.scheduler.row(job_id).progress["step"] == 3


def test_a_process_from_outside_takes_the_card_and_gives_it_back(world: World) -> None:
    stranger = {"pid": 4, "name": "python", "memory_bytes": 2**30, "job": None, "attempt": None}
    for i in range(4):
        sample(world, i * SECOND_US, [stranger])
    assert [card.state for card in world.scheduler.cards()] == ["taken_outside", "free"]
    assert world.scheduler.cluster().taken_outside == 1
    job_id = world.submit(gpus=2)
    world.settle()
    assert world.state(job_id) == "pending"
    for i in range(4, 9):
        sample(world, i * SECOND_US)
    assert world.state(job_id) == "running"


def test_a_hung_job_is_warned_of_and_then_stopped_by_the_tenants_rule(tmp_path, database) -> None:
    world = World(tmp_path, "1x2", database, rules=Rules(silent_s=60, stop_after_s=30))
    with database.write() as c:
        people.put_tenant(c, TenantRow("default", on_hang="stop"))
    world.scheduler.set_tenants()
    job_id = world.submit(name="hung", gpus=1, estimate=10_000)
    world.settle()
    for at_s in range(0, 120, 5):
        run = {"job": job_id, "attempt": 0, "last_output_us": 0, "cpu_ratio": 0.0, "gpu_ratio": 0.0}
        sample(world, at_s * SECOND_US, runs=[run])
    row = world.scheduler.row(job_id)
    assert row.state == "failed"
    assert "silent" in row.cause
    assert kinds(world, job_id).count("hung") == 1
    assert kinds(world, job_id).index("hung") < kinds(world, job_id).index("stopping")


def test_drain_cordon_and_windows_are_kept_over_a_restart(world: World) -> None:
    scheduler = world.scheduler
    node = scheduler.nodes()[0].id
    scheduler.drain(node, ADA, "new disks")
    scheduler.cordon(scheduler.cards()[1].id, ADA, "fan")
    scheduler.add_window([node], 10**15, None, ADA, "firmware")
    again = world.make()
    assert [(n.drained, len(n.windows)) for n in again.nodes()] == [(True, 1)]
    assert [card.state for card in again.cards()] == ["drained", "cordoned"]
    again.undrain(node, ADA)
    again.uncordon(again.cards()[1].id, ADA)
    again.remove_window(again.windows()[0].id, ADA)
    assert [card.state for card in again.cards()] == ["free", "free"]


# -- policy --------------------------------------------------------------------------------------------------------


def test_a_policy_set_while_jobs_run_decides_next_and_survives(world: World) -> None:
    first = world.submit(gpus=2, estimate=5)
    long, short = world.submit(gpus=2, estimate=50), world.submit(gpus=2, estimate=1)
    world.settle()
    preview = world.scheduler.preview_policy({"order": "sjf"})
    assert {job for job, _, _ in preview.moved} == {long, short}
    status = world.scheduler.set_policy({"order": "sjf"}, ADA, "short ones first")
    assert (status.order, status.by, status.revision) == ("sjf", "ada", 1)
    world.engine.end(first, 0)
    world.settle()
    assert (world.state(long), world.state(short)) == ("pending", "running")
    assert world.make().policy().order == "sjf"
    with pytest.raises(Invalid, match="no mode"):
        world.scheduler.set_policy({"mode": "../../etc/passwd"}, ADA)
    with pytest.raises(Invalid):
        world.scheduler.set_policy({"order": "nonsense"}, ADA)


def test_what_is_not_named_stays_part_by_part(world: World) -> None:
    world.scheduler.set_policy({"order": "sjf", "preemption": {"by": "priority"}}, ADA)
    status = world.scheduler.set_policy({"preemption": {"min_run_s": 7.0}}, ADA)
    assert (status.order, status.preemption["by"], status.preemption["min_run_s"]) == ("sjf", "priority", 7.0)


def test_a_policy_that_cannot_be_applied_is_not_on_record(world: World, monkeypatch) -> None:
    monkeypatch.setattr(driver, "with_policies", lambda state, policies: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        world.scheduler.set_policy({"order": "sjf"}, ADA)
    assert (world.scheduler.policy().order, world.scheduler.policy().revision) == ("fifo", 0)
    assert world.make().policy().order == "fifo"


def test_a_share_can_be_placed_beside_one_that_is_only_promised(tmp_path) -> None:
    world = World(tmp_path, "1x2", predictor=create("predictor", "recent"))
    world.scheduler.set_policy({"mode": "slo", "place": "standalone"}, ADA)
    share = {"gpus": None, "share": {"sm": 0.25}, "estimate": None}
    cards = [world.submit(estimate=None) for _ in range(2)]
    world.settle()
    first, _, last = world.submit(**share), world.submit(count=2, min=1, max=2, estimate=None), world.submit(**share)
    world.settle()
    for job_id in cards:
        world.engine.end(job_id, 0)
    world.at(SECOND_US)
    assert (world.state(first), world.state(last)) == ("running", "running")


# -- answers -------------------------------------------------------------------------------------------------------


def test_why_when_and_what_if(world: World) -> None:
    first, second = world.submit(gpus=2, estimate=60), world.submit(gpus=1, estimate=30)
    world.settle()
    why = world.scheduler.why(second)
    assert why.position == 1
    assert why.reasons
    when = world.scheduler.when(second)
    assert when.start_us == 60 * SECOND_US
    assert world.scheduler.when(first).start_us == 0
    (spec,) = expand(check({"command": ["true"], "gpus": 1, "estimate": 5}))
    answer = world.scheduler.what_if(spec, ADA)
    assert (answer.starts_now, answer.start_us) == (False, 60 * SECOND_US)
    (entry,) = world.scheduler.queue(0, 10)
    assert (entry.job_id, entry.position, entry.promised_us) == (second, 1, 60 * SECOND_US)
    world.at(70 * SECOND_US)
    world.engine.end(first, 0)
    world.settle()
    third = world.submit(gpus=2, estimate=10)
    world.settle()
    accuracy = world.scheduler.when(third).accuracy
    assert accuracy is not None
    assert accuracy.count >= 1


def test_answers_share_no_memory_with_the_scheduler(world: World) -> None:
    desk = world.scheduler._desk
    assert desk.copy().space.fixed is not desk.fixed  # by which places remember what they worked out


# -- restart -------------------------------------------------------------------------------------------------------


def test_after_a_restart_everything_goes_on_where_it_was(world: World) -> None:
    running, stopping = world.submit(name="r", gpus=1), world.submit(name="s", gpus=1)
    waiting, held = world.submit(name="w", gpus=1), world.submit(name="h", after=["r"])
    world.settle()
    world.engine.slow_to_stop = True
    world.scheduler.cancel(stopping, ADA)
    world.scheduler = world.make()
    assert sorted(world.engine.recovered) == sorted([(running, 0), (stopping, 0)])
    for job_id, attempt in world.engine.recovered:
        world.engine.report(EngineStarted(job_id, attempt, (1,)))
    world.settle()
    assert len(world.engine.launched) == 2
    assert world.engine.stopped[-1][1] == stopping
    world.engine.end(stopping, 0, "stopped")
    world.settle()
    assert (world.state(stopping), world.state(waiting)) == ("cancelled", "running")
    world.engine.end(running, 0)
    world.settle()
    assert (world.state(running), world.state(held)) == ("succeeded", "running")


def test_a_gang_whose_end_nobody_saw_runs_again_under_the_next_number(world: World) -> None:
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


def test_a_gang_that_is_lost_at_once_again_and_again_is_not_tried_without_end(world: World) -> None:
    job_id = world.submit(gpus=1)
    for at_s in range(60):
        world.at(at_s * SECOND_US)
        row = world.scheduler.row(job_id)
        world.engine.end(job_id, row.attempt, "lost", "no space left on device")
    world.settle()
    row = world.scheduler.row(job_id)
    assert (row.state, row.retries_left) == ("held", 0)
    assert 3 <= len(world.engine.launched) <= 5


def test_a_key_used_for_another_submission_is_refused(world: World) -> None:
    world.scheduler.submit(expand(check({"command": ["true"], "gpus": 1, "estimate": 1})), ADA, None, "k1")
    with pytest.raises(Conflict, match="another submission"):
        world.scheduler.submit(expand(check({"command": ["false"], "gpus": 1, "estimate": 1})), ADA, None, "k1")


def test_a_gang_on_a_card_that_is_gone_is_ended_and_queued_again(tmp_path, database) -> None:
    world = World(tmp_path, "1x2", database)
    job_id = world.submit(gpus=2)
    world.settle()
    from gpusquad.model.cluster import grid

    world.cluster = grid("1x3")
    cards = tuple(type(card)(f"new-{i}") for i, card in enumerate(world.cluster.nodes[0].cards))
    world.cluster = type(world.cluster)((type(world.cluster.nodes[0])("n0", cards, 10**6, 2**40),))
    world.scheduler = world.make()
    world.engine.report(EngineStarted(job_id, 0, (1,)))
    world.settle()
    row = world.scheduler.row(job_id)
    assert (row.state, row.attempt) == ("running", 1)
    assert world.engine.launched[-1][3] == ("new-0", "new-1")


def test_a_gang_lost_with_its_card_comes_back_after_a_restart_too(world: World) -> None:
    job_id = world.submit(gpus=2)
    world.settle()
    world.engine.slow_to_stop = True
    world.scheduler.watcher.hear({"kind": "card_fault", "card": world.scheduler.cards()[0].id, "cause": "Xid 79"})
    world.settle()
    world.scheduler = world.make()
    world.engine.end(job_id, 0, "stopped")
    world.settle()
    row = world.scheduler.row(job_id)
    assert (row.state, row.attempt) == ("running", 1)


def without_the_last_card(cluster: Cluster) -> Cluster:
    """Of the first node."""
    first, *others = cluster.nodes
    return Cluster((replace(first, cards=first.cards[:-1]), *others))


def test_a_gang_told_to_go_is_told_again_after_a_restart_even_if_a_card_of_it_is_gone(world: World) -> None:
    job_id = world.submit(gpus=2)
    world.settle()
    world.engine.slow_to_stop = True
    world.scheduler.cancel(job_id, ADA)
    world.cluster = without_the_last_card(world.cluster)
    world.scheduler, world.engine.slow_to_stop = world.make(), False
    world.engine.report(EngineStarted(job_id, 0, (1,)))
    world.settle()
    assert world.state(job_id) == "cancelled"


def test_nothing_new_comes_near_a_gang_that_lost_a_card_until_it_has_left(world: World) -> None:
    gang, next_one = world.submit(gpus=2), world.submit(gpus=1)
    world.settle()
    world.engine.slow_to_stop = True
    world.cluster = without_the_last_card(world.cluster)
    world.scheduler = world.make()
    world.engine.report(EngineStarted(gang, 0, (1,)))
    world.settle()
    assert (world.state(gang), world.state(next_one)) == ("lost", "pending")
    (card,) = world.scheduler.cards()
    assert (card.state, "still runs here" in card.cause) == ("drained", True)
    assert not world.scheduler.nodes()[0].drained
    world.engine.end(gang, 0, "stopped")
    world.settle()
    assert world.state(next_one) == "running"


def test_a_gang_that_fits_nowhere_any_more_fails_and_says_so(world: World) -> None:
    job_id = world.submit(gpus=2)
    world.settle()
    world.cluster = without_the_last_card(world.cluster)
    world.scheduler = world.make()
    world.engine.report(EngineStarted(job_id, 0, (1,)))
    world.settle()
    row = world.scheduler.row(job_id)
    assert (row.state, row.attempt) == ("failed", 1)
    assert "the largest node has 1" in row.cause


@pytest.mark.parametrize("what", ["cancel", "hold"])
def test_what_is_refused_after_a_restart_can_still_be_cancelled_and_held(world: World, what: str) -> None:
    first, second = world.submit(gpus=2), world.submit(gpus=2)
    world.settle()
    world.engine.end(first, 0)
    world.cluster = without_the_last_card(world.cluster)
    world.scheduler = world.make()
    getattr(world.scheduler, what)(second, ADA)
    world.settle()
    assert world.state(second) == ("cancelled" if what == "cancel" else "failed")


def test_a_limit_set_while_a_job_waits_does_not_fail_it_at_the_next_start(world: World) -> None:
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


def test_a_job_that_came_in_just_before_a_crash_does_not_wait_for_what_was_over(world: World) -> None:
    first = world.submit(name="first")
    world.settle()
    world.engine.end(first, 0)
    world.settle()
    then, alas = world.submit(after=[first]), world.submit(after=[{"job": first, "on": "failure"}])
    world.scheduler = world.make()
    world.settle()
    assert (world.state(then), world.state(alas)) == ("running", "cancelled")


def test_time_goes_on_from_the_last_thing_on_record(world: World) -> None:
    world.clock.at_us = 10**9
    first = world.submit(gpus=2)
    world.settle()
    second = world.submit(gpus=2)
    assert world.scheduler.row(second).sequence > world.scheduler.row(first).sequence
    again = world.make()
    third = again.submit(expand(check({"command": ["true"], "gpus": 1, "estimate": 1})), ADA)[0]
    assert third.sequence > world.scheduler.row(second).sequence
