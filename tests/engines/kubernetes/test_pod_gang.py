"""Tests of one gang of pods: ranks, ends and cards."""

from __future__ import annotations

import pytest

from gpusquad.core.observed import TaskLocation
from gpusquad.engines.kubernetes.gangs.pod_gang import DELETED, FAILED, SUCCEEDED, PodGang
from gpusquad.engines.kubernetes.parse.groups import GroupKey, Membership
from gpusquad.engines.kubernetes.parse.requests import request_of_pod
from gpusquad.kube.objects import Object, uid_of
from gpusquad.model.job import Job, Role
from tests.engines.kubernetes.parse import builders

MEMBER = Membership(GroupKey("Job", "team", "train", "u"), 3, 3, True)


def placed_gang(*gpus: int) -> PodGang:
    """A placed gang with one pending pod per rank; no rank has a pod yet."""
    pods = [builders.pod(f"p{number}", builders.container(gpus=count)) for number, count in enumerate(gpus)]
    gang = PodGang(MEMBER, {uid_of(pod): pod for pod in pods})
    roles = tuple(Role(f"r{number}", 1, request_of_pod(pod)) for number, pod in enumerate(pods))
    locations = [
        TaskLocation(f"n{number}", tuple(f"c{number}-{i}" for i in range(count))) for number, count in enumerate(gpus)
    ]
    gang.place(1, Job("job", roles, 0), locations)
    return gang


def requests(gang: PodGang) -> dict:
    return {uid: request_of_pod(pod) for uid, pod in gang.pods.items()}


def bind_all(gang: PodGang) -> None:
    for rank, pod in gang.assign_ranks(requests(gang)):
        pod["spec"]["nodeName"] = rank.place.node if rank.place else ""
        rank.binding = False


def set_phase(gang: PodGang, name: str, phase: str) -> Object:
    pod = gang.pods[f"uid-of-{name}"]
    pod["status"]["phase"] = phase
    return pod


def test_pod_gets_a_rank_with_an_equal_request() -> None:
    gang = placed_gang(1, 2, 1)
    pods_in_ranks = {uid_of(pod): rank.request.gpus for rank, pod in gang.assign_ranks(requests(gang))}
    assert pods_in_ranks == {"uid-of-p0": 1, "uid-of-p1": 2, "uid-of-p2": 1}
    assert gang.assign_ranks(requests(gang)) == []


def test_pods_get_their_intended_ranks() -> None:
    gang = placed_gang(1, 1, 1)
    gang.intended = ("uid-of-p2", "uid-of-p0", "uid-of-p1")
    gang.assign_ranks(requests(gang))
    assert [rank.pod for rank in gang.ranks] == list(gang.intended)


def test_pod_with_another_request_gets_no_rank() -> None:
    gang = placed_gang(1, 1)
    other = builders.pod("p1", builders.container(gpus=4))
    gang.pods["uid-of-p1"] = other
    assert [uid_of(pod) for _, pod in gang.assign_ranks(requests(gang))] == ["uid-of-p0"]
    assert gang.surplus_pods() == []


def test_extra_pod_is_surplus_unless_a_pod_is_being_deleted() -> None:
    gang = placed_gang(1, 1)
    bind_all(gang)
    gang.pods["uid-of-p9"] = builders.pod("p9")
    assert [uid_of(pod) for pod in gang.surplus_pods()] == ["uid-of-p9"]
    gang.pods["uid-of-p0"]["metadata"]["deletionTimestamp"] = "now"
    assert gang.surplus_pods() == []


def test_ranks_keep_the_end_of_their_pods_and_the_first_failure() -> None:
    gang = placed_gang(1, 1, 1)
    bind_all(gang)
    gang.empty_ended_ranks()
    set_phase(gang, "p0", SUCCEEDED)
    gang.empty_ended_ranks()
    assert gang.first_end is None
    failed = set_phase(gang, "p1", FAILED)
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


def test_rank_has_no_end_when_its_pod_is_deleted_before_binding() -> None:
    gang = placed_gang(1, 1)
    gang.assign_ranks(requests(gang))
    del gang.pods["uid-of-p0"]
    gang.empty_ended_ranks()
    assert [rank.end for rank in gang.ranks] == ["", ""]
    assert not gang.has_ended


def test_pod_is_on_its_node_once_the_binding_was_accepted() -> None:
    gang = placed_gang(1)
    ((rank, pod),) = gang.assign_ranks(requests(gang))
    assert gang.on_nodes() == []
    rank.on_node = True
    assert gang.on_nodes() == [pod]


def test_all_run_when_every_pod_runs_or_has_succeeded() -> None:
    gang = placed_gang(1, 1)
    bind_all(gang)
    set_phase(gang, "p0", "Running")
    assert gang.is_unaffected_by("uid-of-p0")
    assert not gang.all_run
    set_phase(gang, "p1", "Running")
    assert not gang.is_unaffected_by("uid-of-p1")
    assert gang.all_run
    set_phase(gang, "p1", SUCCEEDED)
    gang.empty_ended_ranks()
    assert gang.all_run


def test_gang_has_cards_only_while_it_is_placed() -> None:
    gang = placed_gang(1, 2)
    assert gang.cards_on("n1") == {"c1-0", "c1-1"}
    gang.unplace()
    assert gang.cards_on("n1") == frozenset()


EXIT_1 = {"containerStatuses": [{"state": {"terminated": {"exitCode": 1}}}]}


@pytest.mark.parametrize(
    ("status", "metadata", "own"),
    [
        (EXIT_1, {}, True),
        ({}, {}, False),
        (EXIT_1 | {"reason": "Evicted"}, {}, False),
        (EXIT_1 | {"conditions": [{"type": "DisruptionTarget"}]}, {}, False),
        (EXIT_1, {"deletionTimestamp": "now"}, False),
    ],
)
def test_gang_failed_by_itself_unless_a_pod_was_ended_from_outside(status: dict, metadata: dict, own: bool) -> None:
    gang = placed_gang(1, 1)
    bind_all(gang)
    gang.empty_ended_ranks()
    assert not gang.has_failed_by_itself
    set_phase(gang, "p0", FAILED)["status"] |= EXIT_1
    failed = set_phase(gang, "p1", FAILED)
    failed["status"] |= status
    failed["metadata"] |= metadata
    gang.empty_ended_ranks()
    assert gang.has_failed_by_itself == own
