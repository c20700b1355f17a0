"""The book of gangs: what once went wrong, or would hurt most."""

from __future__ import annotations

from gpusquad.core.observed import GangFound
from gpusquad.engines.kubernetes.gangs.pod_gang import node_name
from gpusquad.kube.names import CARDS, SLO
from gpusquad.kube.objects import name_of, uid_of
from gpusquad.model.job import Slo
from gpusquad.model.sharing_params import SharingParams
from tests.engines.kubernetes.world.rest import check_rest
from tests.engines.kubernetes.world.world import World


def job_of(world: World, size: int = 3) -> str:
    """A Job's gang, on its cards and running."""
    world.make_job("j", size)
    check_rest(world)
    (job,) = world.store
    return job


def launched(world: World) -> str:
    """A single pod's job, decided; its pod is about to be bound."""
    world.make("single-0")
    world.deliver()
    world.on_change()
    (job,) = world.store
    world.launch(job)
    return job


def reports(world: World) -> list[str]:
    return [type(said).__name__ for said in world.reports]


def test_a_gang_of_which_some_have_ended_is_resumed_where_it_is() -> None:
    world = World()
    job = job_of(world, 8)
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


def test_a_gang_that_the_service_has_no_place_for_is_counted_as_others() -> None:
    """Until it says otherwise, and for as long as its pods are there."""
    world = World()
    job_of(world)
    world.store.clear()  # a service that remembers nothing finds it where it is
    world.restart(lambda: True)
    [found] = [said for said in world.reports if isinstance(said, GangFound)]
    uids = [uid_of(pod) for pod in world.pods.values()]
    assert all(map(world.registry.holds, uids))
    world.registry.resume(found.job, 0, (), True)
    assert not any(map(world.registry.holds, uids))
    assert all(node_name(pod) for pod in world.pods.values()), "it is left alone"
    world.registry.resume(found.job, 0, found.places, True)
    assert all(map(world.registry.holds, uids))


def test_a_pod_made_again_during_a_restart_takes_the_empty_rank() -> None:
    world = World()
    job = job_of(world)
    world.run_pod("j-1", "Failed")
    world.control("j")
    world.restart(lambda: True)
    check_rest(world)
    assert world.ends[job, 0] == 0
    assert world.store[job].state == "running"
    assert all(rank.pod for rank in world.registry.by_job[job].ranks)


def test_pods_of_an_owner_that_was_deleted_keep_their_cards_until_they_are_gone() -> None:
    world = World()
    job = job_of(world)
    world.delete_job("j")
    for _ in range(len(world.events)):
        world.deliver()
    assert reports(world) == []
    world.restart(lambda: True)
    assert "AttemptEnded" not in reports(world)
    check_rest(world)
    assert world.ends[job, 0] == 1


def test_what_an_owner_makes_again_before_it_was_asked_is_bound_where_the_gang_is() -> None:
    world = World()
    job = job_of(world, 1)
    world.run_pod("j-0", "Failed")
    world.deliver()
    assert world.asked
    world.control("j")
    check_rest(world)
    assert world.ends[job, 0] == 0
    assert world.store[job].state == "running"


def test_a_stop_during_a_binding_ends_when_the_binding_is_given_up() -> None:
    world = World()
    job = launched(world)
    world.preempt(job)
    world.calls.popleft()()
    world.calls.popleft()()
    assert reports(world) == []
    world.answer(0)
    assert reports(world) == ["AttemptEnded"]


def test_cards_are_not_free_while_a_pod_is_bound_that_is_not_seen_yet() -> None:
    world = World()
    job = launched(world)
    world.calls.popleft()()
    world.land(0)
    world.preempt(job)
    world.calls.popleft()()
    world.answer(0)
    assert world.deletes
    assert reports(world) == []
    check_rest(world)
    assert world.ends[job, 0] == 1


def test_a_launch_that_crossed_a_withdrawal_does_not_leave_a_job_behind() -> None:
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


def test_surplus_pods_of_a_gang_that_runs_are_jobs_of_their_own() -> None:
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


def test_a_group_of_the_same_name_is_another_job_each_time() -> None:
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


def test_a_second_launch_of_an_attempt_starts_and_ends_nothing() -> None:
    world = World()
    job = job_of(world)
    row = world.store[job]
    world.registry.launch(job, row.attempt, row.places)
    assert reports(world) == []
    assert world.binds == []


def test_pods_made_again_are_bound_with_what_the_job_is_worth_by_then() -> None:
    world = World()
    world.make_job("j", 1)
    world.control("j")
    check_rest(world)
    [job] = world.store
    world.registry.change(job, 1, SharingParams(weight=9.0))  # of another attempt
    world.registry.change(job, 0, SharingParams(weight=2.0))
    [uid] = world.registry.pods_in_ranks(job)
    assert world.registry.pod_sharing(uid) == (world.registry.by_job[job].pods[uid], SharingParams(weight=2.0))
    world.run_pod("j-0", "Failed")
    world.control("j")
    while world.events:
        world.deliver()
    [bind] = world.binds
    assert bind.place.sharing_params == SharingParams(weight=2.0)
    assert world.registry.pod_sharing(uid_of(bind.pod)) is None, "it is not on its node"


def test_of_a_gang_that_was_adopted_nobody_has_said_what_it_is_worth() -> None:
    world = World()
    pod = world.make("single-0")
    pod["spec"]["nodeName"] = "node9"
    pod["metadata"]["annotations"][CARDS] = '{"main":["GPU-9"]}'
    world.events.clear()
    world._tell("seen", pod)
    world.empty_ended_ranks()
    [uid] = world.registry.pods_in_ranks()
    assert world.registry.pod_sharing(uid) is None
    [job] = world.store
    world.registry.change(job, 0, SharingParams(weight=2.0))
    assert world.registry.pod_sharing(uid) is not None


def test_a_deadline_counts_from_the_first_pods_also_when_they_are_made_again() -> None:
    world = World()
    world.make_job("j", 1)
    jobs = []
    for goal, hour in (("p99=1s,deadline=2h", 10), ("deadline=2h", 13)):
        world.control("j")
        [pod] = world.pods.values()
        pod["metadata"]["annotations"][SLO] = goal
        pod["metadata"]["creationTimestamp"] = f"2026-03-01T{hour}:00:00Z"
        world.events.clear()
        world._tell("seen", pod)
        world.deliver()
        jobs.append([said.job for said in world.reports if isinstance(said, GangFound)][-1])
        world.delete_pod(name_of(pod))
        world.deliver()
    first, again = jobs
    assert again.id == first.id
    assert again.submitted_us == first.submitted_us
    assert again.slo == Slo(deadline_us=first.submitted_us + 2 * 3600 * 10**6)


def test_a_pod_that_cannot_be_read_is_told_once_and_breaks_nothing() -> None:
    world = World()
    job_of(world)
    world.make("bad", group="a", group_size="many")
    world.make("worse", gpus=2, group="b")
    check_told = [what for what in world.lacking if "number of pods" in what]
    assert check_told == []
    world.empty_ended_ranks()
    for name in ("bad", "worse"):
        world.pods[name]["status"]["message"] = "another"
        world._tell("seen", world.pods[name])
    world.empty_ended_ranks()
    assert sum("number of pods" in what for what in world.lacking) == 2


def test_pods_that_somebody_bound_without_cards_are_not_ours_to_count() -> None:
    world = World()
    pod = world.make("single-0")
    pod["spec"]["nodeName"] = "node9"
    world._tell("seen", pod)
    world.events.popleft()
    world.empty_ended_ranks()
    assert world.store == {}
    assert not world.registry.holds(uid_of(pod))
