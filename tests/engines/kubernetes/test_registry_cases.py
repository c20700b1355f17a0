"""Tests of the gang registry in cases that failed before or would do most harm."""

from __future__ import annotations

import pytest

from gpusquad.core.observed import GangFound
from gpusquad.core.ports import AttemptEnded
from gpusquad.engines.kubernetes.gangs.pod_gang import node_name
from gpusquad.kube.names import CARDS, SLO
from gpusquad.kube.objects import name_of, uid_of
from gpusquad.model.job import Slo
from gpusquad.model.sharing_params import SharingParams
from tests.engines.kubernetes.world.rest import check_rest
from tests.engines.kubernetes.world.world import World


def running_job(world: World, size: int = 3) -> str:
    """Run the gang of a Job; returns its job id."""
    world.make_job("j", size)
    check_rest(world)
    (job,) = world.store
    return job


def launched_job(world: World) -> str:
    """Launch the job of a single pod, whose binding is still pending."""
    world.make("single-0")
    world.deliver()
    world.on_change()
    (job,) = world.store
    world.launch(job)
    return job


def reports(world: World) -> list[str]:
    return [type(event).__name__ for event in world.reports]


def test_partly_ended_gang_is_resumed_after_a_restart() -> None:
    world = World()
    job = running_job(world, 8)
    for name in ("j-1", "j-4", "j-6"):
        world.run_pod(name, "Succeeded")
    world.control("j")
    world.restart(lambda: True)
    assert "AttemptEnded" not in reports(world)
    gang = world.registry.by_job[job]
    assert len(gang.ranks_by_pod) == 5
    assert sum(rank.end == "Succeeded" for rank in gang.ranks) == 3
    for number in range(8):
        world.run_pod(f"j-{number}", "Succeeded")
    check_rest(world)
    assert world.ends[job, 0] == 1
    assert world.store == {}


def test_gang_has_the_priority_that_the_cluster_grants_when_it_is_reported() -> None:
    world = World()
    pod = world.make("single-0", priority="urgent")
    pod["spec"]["priority"] = 7
    world.events.clear()
    world.registry.seen(pod)
    (gang,) = world.registry.by_job.values()
    assert gang.job is not None
    assert (gang.job.priority, gang.cluster_priority) == ("urgent", "7")


def test_gang_without_a_placement_in_the_service_is_not_held() -> None:
    """Until the service gives it a placement, as long as its pods exist."""
    world = World()
    running_job(world)
    world.store.clear()  # a service without a store finds the gang running
    world.restart(lambda: True)
    [found] = [event for event in world.reports if isinstance(event, GangFound)]
    uids = [uid_of(pod) for pod in world.pods.values()]
    assert all(map(world.registry.holds, uids))
    world.registry.resume(found.job, 0, (), True)
    assert not any(map(world.registry.holds, uids))
    assert all(node_name(pod) for pod in world.pods.values()), "its pods are not deleted"
    world.registry.resume(found.job, 0, found.places, True)
    assert all(map(world.registry.holds, uids))


def test_pod_recreated_during_a_restart_gets_the_empty_rank() -> None:
    world = World()
    job = running_job(world)
    world.run_pod("j-1", "Failed")
    world.control("j")
    world.restart(lambda: True)
    check_rest(world)
    assert world.ends[job, 0] == 0
    assert world.store[job].state == "running"
    assert all(rank.pod for rank in world.registry.by_job[job].ranks)


def test_pods_of_a_deleted_owner_keep_their_cards_until_they_are_gone() -> None:
    world = World()
    job = running_job(world)
    world.delete_job("j")
    for _ in range(len(world.events)):
        world.deliver()
    assert reports(world) == []
    world.restart(lambda: True)
    assert "AttemptEnded" not in reports(world)
    check_rest(world)
    assert world.ends[job, 0] == 1


def test_pod_recreated_before_the_owner_check_is_bound_to_its_gang() -> None:
    world = World()
    job = running_job(world, 1)
    world.run_pod("j-0", "Failed")
    world.deliver()
    assert world.owner_checks
    world.control("j")
    check_rest(world)
    assert world.ends[job, 0] == 0
    assert world.store[job].state == "running"


@pytest.mark.parametrize("exit_code", [0, 1])
def test_job_that_is_retried_by_its_owner_is_reported_with_its_failure(exit_code: int) -> None:
    world = World()
    running_job(world, 1)
    world.pods["j-0"]["status"]["containerStatuses"] = [{"state": {"terminated": {"exitCode": exit_code}}}]
    world.run_pod("j-0", "Failed")
    world.deliver()
    world.answer_owner(0)
    [ended] = [event for event in world.reports if isinstance(event, AttemptEnded)]
    assert (ended.how, ended.failed_by_itself) == ("lost", exit_code == 1)


def test_stop_during_a_binding_ends_when_the_binding_is_abandoned() -> None:
    world = World()
    job = launched_job(world)
    world.preempt(job)
    world.calls.popleft()()
    world.calls.popleft()()
    assert reports(world) == []
    world.answer(0)
    assert reports(world) == ["AttemptEnded"]


def test_attempt_does_not_end_while_a_bound_pod_is_not_seen_yet() -> None:
    world = World()
    job = launched_job(world)
    world.calls.popleft()()
    world.apply_binding(0)
    world.preempt(job)
    world.calls.popleft()()
    world.answer(0)
    assert world.deletes
    assert reports(world) == []
    check_rest(world)
    assert world.ends[job, 0] == 1


def test_launch_during_a_withdrawal_leaves_no_job() -> None:
    world = World()
    world.make("single-0")
    world.deliver()
    world.on_change()
    (job,) = world.store
    world.delete_pod("single-0")
    world.launch(job)
    world.deliver()
    world.on_change()
    check_rest(world)
    assert job not in world.store


def test_surplus_pods_of_a_running_gang_are_separate_jobs() -> None:
    world = World()
    for number in range(2):
        world.make_bare("a", 2, number)
    check_rest(world)
    for number in (2, 3):
        world.make_bare("a", 2, number)
    check_rest(world)
    assert len(world.store) == 3
    world.restart(lambda: True)
    assert "AttemptEnded" not in reports(world)
    check_rest(world)
    assert len(world.store) == 3


def test_group_that_reuses_a_name_is_a_new_job() -> None:
    world = World()
    seen = set()
    for _ in range(3):
        for number in range(2):
            world.make_bare("a", 2, number)
        check_rest(world)
        (job,) = world.store
        seen.add(job)
        for number in range(2):
            world.run_pod(f"a-{number}", "Succeeded")
            world.delete_pod(f"a-{number}")
        check_rest(world)
    assert len(seen) == 3


def test_second_launch_of_an_attempt_has_no_effect() -> None:
    world = World()
    job = running_job(world)
    row = world.store[job]
    world.registry.launch(job, row.attempt, row.places)
    assert reports(world) == []
    assert world.binds == []


def test_recreated_pods_are_bound_with_the_current_sharing_params() -> None:
    world = World()
    world.make_job("j", 1)
    world.control("j")
    check_rest(world)
    [job] = world.store
    world.registry.change(job, 1, SharingParams(weight=9.0))  # for another attempt
    world.registry.change(job, 0, SharingParams(weight=2.0))
    [uid] = world.registry.pods_in_ranks(job)
    assert world.registry.pod_sharing(uid) == (world.registry.by_job[job].pods[uid], SharingParams(weight=2.0))
    world.run_pod("j-0", "Failed")
    world.control("j")
    while world.events:
        world.deliver()
    [bind] = world.binds
    assert bind.place.sharing_params == SharingParams(weight=2.0)
    assert world.registry.pod_sharing(uid_of(bind.pod)) is None, "it is not on its node yet"


def test_adopted_gang_has_no_sharing_params_until_they_are_set() -> None:
    world = World()
    pod = world.make("single-0")
    pod["spec"]["nodeName"] = "node9"
    pod["metadata"]["annotations"][CARDS] = '{"main":["GPU-9"]}'
    world.events.clear()
    world._emit("seen", pod)
    world.settle()
    [uid] = world.registry.pods_in_ranks()
    assert world.registry.pod_sharing(uid) is None
    [job] = world.store
    world.registry.change(job, 0, SharingParams(weight=2.0))
    assert world.registry.pod_sharing(uid) is not None


def test_deadline_counts_from_the_first_pods_when_they_are_recreated() -> None:
    world = World()
    world.make_job("j", 1)
    jobs = []
    for slo, hour in (("p99=1s,deadline=2h", 10), ("deadline=2h", 13)):
        world.control("j")
        [pod] = world.pods.values()
        pod["metadata"]["annotations"][SLO] = slo
        pod["metadata"]["creationTimestamp"] = f"2026-03-01T{hour}:00:00Z"
        world.events.clear()
        world._emit("seen", pod)
        world.deliver()
        jobs.append([event.job for event in world.reports if isinstance(event, GangFound)][-1])
        world.delete_pod(name_of(pod))
        world.deliver()
    first, recreated = jobs
    assert recreated.id == first.id
    assert recreated.submitted_us == first.submitted_us
    assert recreated.slo == Slo(deadline_us=first.submitted_us + 2 * 3600 * 10**6)


def test_unreadable_pod_is_reported_once() -> None:
    world = World()
    running_job(world)
    world.make("bad", group="a", group_size="many")
    world.make("worse", gpus=2, group="b")
    early_messages = [message for message in world.unschedulable if "number of pods" in message]
    assert early_messages == []
    world.settle()
    for name in ("bad", "worse"):
        world.pods[name]["status"]["message"] = "another"
        world._emit("seen", world.pods[name])
    world.settle()
    assert sum("number of pods" in message for message in world.unschedulable) == 2


def test_pod_bound_by_others_without_cards_is_not_held() -> None:
    world = World()
    pod = world.make("single-0")
    pod["spec"]["nodeName"] = "node9"
    world._emit("seen", pod)
    world.events.popleft()
    world.settle()
    assert world.store == {}
    assert not world.registry.holds(uid_of(pod))
