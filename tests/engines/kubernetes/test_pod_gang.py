"""One gang: who sits where, and how it ends."""

from __future__ import annotations

from gpusquad.core.observed import TaskLocation
from gpusquad.engines.kubernetes.gangs.pod_gang import DELETED, FAILED, SUCCEEDED, PodGang
from gpusquad.engines.kubernetes.parse.groups import GroupKey, Membership
from gpusquad.engines.kubernetes.parse.requests import request_of_pod
from gpusquad.kube.objects import Object, uid_of
from gpusquad.model.job import Job, Role
from tests.engines.kubernetes.parse import making

MEMBER = Membership(GroupKey("Job", "team", "train", "u"), 3, 3, True)


def placed(*gpus: int) -> PodGang:
    """A gang with a pod that waits for each rank, and none in it yet."""
    pods = [making.pod(f"p{number}", making.container(gpus=count)) for number, count in enumerate(gpus)]
    gang = PodGang(MEMBER, {uid_of(pod): pod for pod in pods})
    roles = tuple(Role(f"r{number}", 1, request_of_pod(pod)) for number, pod in enumerate(pods))
    places = [
        TaskLocation(f"n{number}", tuple(f"c{number}-{i}" for i in range(count))) for number, count in enumerate(gpus)
    ]
    gang.place(1, Job("job", roles, 0), places)
    return gang


def requests(gang: PodGang) -> dict:
    return {uid: request_of_pod(pod) for uid, pod in gang.pods.items()}


def sit(gang: PodGang) -> None:
    for rank, pod in gang.assign_ranks(requests(gang)):
        pod["spec"]["nodeName"] = rank.place.node if rank.place else ""
        rank.binding = False


def change(gang: PodGang, name: str, phase: str) -> Object:
    pod = gang.pods[f"uid-of-{name}"]
    pod["status"]["phase"] = phase
    return pod


def test_each_pod_takes_a_rank_that_asks_for_what_it_asks_for() -> None:
    gang = placed(1, 2, 1)
    pods_in_ranks = {uid_of(pod): rank.request.gpus for rank, pod in gang.assign_ranks(requests(gang))}
    assert pods_in_ranks == {"uid-of-p0": 1, "uid-of-p1": 2, "uid-of-p2": 1}
    assert gang.assign_ranks(requests(gang)) == []


def test_pods_take_the_ranks_they_were_counted_for() -> None:
    gang = placed(1, 1, 1)
    gang.intended = ("uid-of-p2", "uid-of-p0", "uid-of-p1")
    gang.assign_ranks(requests(gang))
    assert [rank.pod for rank in gang.ranks] == list(gang.intended)


def test_a_pod_that_asks_for_something_else_has_no_rank() -> None:
    gang = placed(1, 1)
    other = making.pod("p1", making.container(gpus=4))
    gang.pods["uid-of-p1"] = other
    assert [uid_of(pod) for _, pod in gang.assign_ranks(requests(gang))] == ["uid-of-p0"]
    assert gang.surplus_pods() == []


def test_a_pod_beyond_all_ranks_is_left_over_unless_one_is_about_to_be_free() -> None:
    gang = placed(1, 1)
    sit(gang)
    gang.pods["uid-of-p9"] = making.pod("p9")
    assert [uid_of(pod) for pod in gang.surplus_pods()] == ["uid-of-p9"]
    gang.pods["uid-of-p0"]["metadata"]["deletionTimestamp"] = "now"
    assert gang.surplus_pods() == []


def test_ranks_remember_how_their_pods_ended_and_who_was_first() -> None:
    gang = placed(1, 1, 1)
    sit(gang)
    gang.empty_ended_ranks()
    change(gang, "p0", SUCCEEDED)
    gang.empty_ended_ranks()
    assert gang.first_end is None
    failed = change(gang, "p1", FAILED)
    failed["status"]["containerStatuses"] = [{"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]
    gang.empty_ended_ranks()
    del gang.pods["uid-of-p2"]
    gang.empty_ended_ranks()
    assert [rank.end for rank in gang.ranks] == [SUCCEEDED, FAILED, DELETED]
    assert gang.has_ended
    assert gang.has_failed
    assert not gang.has_succeeded
    assert gang.first_end is not None
    assert (gang.first_end.task, gang.first_end.exit_code, gang.first_end.out_of_memory) == (1, 137, True)


def test_a_pod_that_vanishes_before_it_was_bound_has_not_ended_there() -> None:
    gang = placed(1, 1)
    gang.assign_ranks(requests(gang))
    del gang.pods["uid-of-p0"]
    gang.empty_ended_ranks()
    assert [rank.end for rank in gang.ranks] == ["", ""]
    assert not gang.has_ended


def test_a_pod_is_on_its_node_from_when_the_server_took_the_binding() -> None:
    gang = placed(1)
    ((rank, pod),) = gang.assign_ranks(requests(gang))
    assert gang.on_nodes() == []
    rank.on_node = True
    assert gang.on_nodes() == [pod]


def test_all_run_when_each_runs_or_has_succeeded() -> None:
    gang = placed(1, 1)
    sit(gang)
    change(gang, "p0", "Running")
    assert gang.is_unaffected_by("uid-of-p0")
    assert not gang.all_run
    change(gang, "p1", "Running")
    assert not gang.is_unaffected_by("uid-of-p1")
    assert gang.all_run
    change(gang, "p1", SUCCEEDED)
    gang.empty_ended_ranks()
    assert gang.all_run


def test_its_cards_are_its_own_while_it_is_placed() -> None:
    gang = placed(1, 2)
    assert gang.cards_on("n1") == {"c1-0", "c1-1"}
    gang.unplace()
    assert gang.cards_on("n1") == frozenset()
