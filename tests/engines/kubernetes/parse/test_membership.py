"""Tests of the group of a pod, for every supported convention."""

from __future__ import annotations

import pytest

from gpusquad.engines.kubernetes.parse.groups import GroupKey, Membership, single_membership
from gpusquad.engines.kubernetes.parse.lookups import LOOKUPS, NotFetched
from gpusquad.engines.kubernetes.parse.membership import membership_of
from gpusquad.kube.objects import Object
from tests.engines.kubernetes.parse.builders import finder, nothing_exists, nothing_known, pod
from tests.engines.kubernetes.parse.conventions.by_group import BY_GROUP
from tests.engines.kubernetes.parse.conventions.by_owner import BY_OWNER
from tests.engines.kubernetes.parse.conventions.case import Case
from tests.engines.kubernetes.parse.conventions.objects import (
    COSCHEDULING,
    INDEXED,
    JOB_OF_JOBSET,
    JOBSET,
    LWS,
    NATIVE,
    PYTORCH,
    RAY,
    batch_job,
    lws_pod,
    pod_of,
)

PRECEDENCE = {
    "native takes precedence": Case(
        pod("p", schedulingGroup={"podGroupName": "g"}, labels={"scheduling.x-k8s.io/pod-group": "g"}, owner=INDEXED),
        (NATIVE, COSCHEDULING, INDEXED),
        "PodGroup",
        "g",
        4,
        4,
        recreates=True,
    ),
    "group before owner": Case(
        pod_of(INDEXED, annotations={"gpusquad.io/group": "g", "gpusquad.io/group-size": "2"}),
        (INDEXED,),
        "gpusquad.io/group",
        "g",
        2,
        2,
        recreates=True,
    ),
    "pod without a gang": Case(
        pod_of(INDEXED, annotations={"gpusquad.io/gang": "false"}), (INDEXED,), "Pod", "p", 1, 1, recreates=True
    ),
}
CASES = BY_OWNER | BY_GROUP | PRECEDENCE


@pytest.mark.parametrize("name", CASES)
def test_membership_follows_the_convention(name: str):
    case = CASES[name]
    found = membership_of(case.pod, finder(*case.items))
    assert (found.key.kind, found.key.namespace, found.key.name) == (case.kind, "team", case.name)
    assert (found.size, found.least, found.recreates, found.parts) == (
        case.size,
        case.least,
        case.recreates,
        case.parts,
    )
    assert not found.waits_for
    assert found.key.uid


@pytest.mark.parametrize("owner", [INDEXED, PYTORCH, RAY, JOBSET])
def test_pod_is_single_when_its_owner_disables_gangs(owner: Object):
    annotated = owner | {"metadata": owner["metadata"] | {"annotations": {"gpusquad.io/gang": "false"}}}
    assert membership_of(pod_of(annotated), finder(annotated)).key == GroupKey("Pod", "team", "p", "uid-of-p")


def test_pod_is_single_when_its_leader_worker_set_disables_gangs():
    annotated = LWS | {"metadata": LWS["metadata"] | {"annotations": {"gpusquad.io/gang": "false"}}}
    assert membership_of(lws_pod(1), finder(annotated)).least == 1


def test_unknown_group_is_waited_for():
    found = membership_of(pod("p", schedulingGroup={"podGroupName": "g"}), nothing_known)
    assert found == Membership(
        GroupKey("PodGroup", "team", "g", ""), None, 1, False, waits_for="PodGroup team/g is being looked up"
    )
    found = membership_of(pod_of(INDEXED), nothing_known)
    assert (found.size, found.waits_for) == (None, "Job team/train is being looked up")


def test_missing_group_is_waited_for():
    found = membership_of(pod("p", labels={"scheduling.x-k8s.io/pod-group": "g"}), nothing_exists)
    assert (found.size, found.waits_for) == (None, "PodGroup team/g of scheduling.x-k8s.io does not exist")


def test_owner_of_the_same_name_with_another_uid_is_not_used():
    other = INDEXED | {"metadata": INDEXED["metadata"] | {"uid": "another"}}
    found = membership_of(pod_of(INDEXED), finder(other))
    assert (found.size, found.waits_for) == (None, "Job team/train is not the one that created the pod")


def test_owner_that_owns_itself_ends_the_search():
    job = batch_job({"completions": 1})
    job["metadata"] = job["metadata"] | {"ownerReferences": [{**SELF_REFERENCE, "uid": job["metadata"]["uid"]}]}
    assert membership_of(pod_of(job), finder(job)).key.kind == "Job"


SELF_REFERENCE = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}


def test_annotations_and_priority_of_a_group_are_kept():
    assert membership_of(pod("p", schedulingGroup={"podGroupName": "g"}), finder(NATIVE)).priority == 7
    found = membership_of(pod_of(JOB_OF_JOBSET), finder(JOB_OF_JOBSET, JOBSET))
    assert found.annotations == (("gpusquad.io/estimate", "2h"),)
    assert found.owner_uid == "uid-of-Job-train"
    single = single_membership(found, pod_of(JOB_OF_JOBSET))
    assert (single.key.uid, single.least, single.recreates, single.annotations) == (
        "uid-of-p",
        1,
        True,
        found.annotations,
    )


def test_every_looked_up_kind_is_in_the_table():
    looked_up: set[tuple[str, str]] = set()

    def record(group: str, kind: str, namespace: str, name: str) -> Object | NotFetched | None:
        looked_up.add((group, kind))
        return finder(*items)(group, kind, namespace, name)

    for case in CASES.values():
        items = case.items
        membership_of(case.pod, record)
    assert looked_up <= {(lookup.group, lookup.kind) for lookup in LOOKUPS}
    assert len({(lookup.group, lookup.plural) for lookup in LOOKUPS}) == len(LOOKUPS)
    assert all(lookup.versions for lookup in LOOKUPS)
