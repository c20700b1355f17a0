"""To which group a pod belongs, by every convention that people use."""

from __future__ import annotations

import pytest

from gpusquad.engines.kubernetes.parse.groups import GroupKey, Membership, single_membership
from gpusquad.engines.kubernetes.parse.lookups import LOOKUPS, NotFetched
from gpusquad.engines.kubernetes.parse.membership import membership_of
from gpusquad.kube.objects import Object
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
    of_job,
)
from tests.engines.kubernetes.parse.making import finder, nothing_known, nothing_there, pod

WHICH_FIRST = {
    "native before all others": Case(
        pod("p", schedulingGroup={"podGroupName": "g"}, labels={"scheduling.x-k8s.io/pod-group": "g"}, owner=INDEXED),
        (NATIVE, COSCHEDULING, INDEXED),
        "PodGroup",
        "g",
        4,
        4,
        recreates=True,
    ),
    "a group before the owner": Case(
        of_job(INDEXED, annotations={"gpusquad.io/group": "g", "gpusquad.io/group-size": "2"}),
        (INDEXED,),
        "gpusquad.io/group",
        "g",
        2,
        2,
        recreates=True,
    ),
    "a pod that wants no gang": Case(
        of_job(INDEXED, annotations={"gpusquad.io/gang": "false"}), (INDEXED,), "Pod", "p", 1, 1, recreates=True
    ),
}
CASES = BY_OWNER | BY_GROUP | WHICH_FIRST


@pytest.mark.parametrize("name", CASES)
def test_conventions(name: str):
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
def test_an_owner_that_wants_no_gang(owner: Object):
    told = owner | {"metadata": owner["metadata"] | {"annotations": {"gpusquad.io/gang": "false"}}}
    assert membership_of(of_job(told), finder(told)).key == GroupKey("Pod", "team", "p", "uid-of-p")


def test_a_set_that_wants_no_gang():
    told = LWS | {"metadata": LWS["metadata"] | {"annotations": {"gpusquad.io/gang": "false"}}}
    assert membership_of(lws_pod(1), finder(told)).least == 1


def test_a_group_that_is_not_known_yet_is_waited_for():
    found = membership_of(pod("p", schedulingGroup={"podGroupName": "g"}), nothing_known)
    assert found == Membership(
        GroupKey("PodGroup", "team", "g", ""), None, 1, False, waits_for="PodGroup team/g is being looked up"
    )
    found = membership_of(of_job(INDEXED), nothing_known)
    assert (found.size, found.waits_for) == (None, "Job team/train is being looked up")


def test_a_group_that_is_not_there_is_waited_for():
    found = membership_of(pod("p", labels={"scheduling.x-k8s.io/pod-group": "g"}), nothing_there)
    assert (found.size, found.waits_for) == (None, "PodGroup team/g of scheduling.x-k8s.io does not exist")


def test_another_owner_of_the_same_name_is_not_the_owner():
    other = INDEXED | {"metadata": INDEXED["metadata"] | {"uid": "another"}}
    found = membership_of(of_job(INDEXED), finder(other))
    assert (found.size, found.waits_for) == (None, "Job team/train is not the one that created the pod")


def test_an_owner_of_itself_ends_the_search():
    own = batch_job({"completions": 1})
    own["metadata"] = own["metadata"] | {"ownerReferences": [{**OWN_REFERENCE, "uid": own["metadata"]["uid"]}]}
    assert membership_of(of_job(own), finder(own)).key.kind == "Job"


OWN_REFERENCE = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}


def test_what_a_group_says_and_its_priority_go_along():
    assert membership_of(pod("p", schedulingGroup={"podGroupName": "g"}), finder(NATIVE)).priority == 7
    found = membership_of(of_job(JOB_OF_JOBSET), finder(JOB_OF_JOBSET, JOBSET))
    assert found.annotations == (("gpusquad.io/estimate", "2h"),)
    assert found.owner_uid == "uid-of-Job-train"
    single = single_membership(found, of_job(JOB_OF_JOBSET))
    assert (single.key.uid, single.least, single.recreates, single.annotations) == (
        "uid-of-p",
        1,
        True,
        found.annotations,
    )


def test_whatever_is_looked_up_is_in_the_table():
    asked: set[tuple[str, str]] = set()

    def remember(group: str, kind: str, namespace: str, name: str) -> Object | NotFetched | None:
        asked.add((group, kind))
        return finder(*items)(group, kind, namespace, name)

    for case in CASES.values():
        items = case.items
        membership_of(case.pod, remember)
    assert asked <= {(lookup.group, lookup.kind) for lookup in LOOKUPS}
    assert len({(lookup.group, lookup.plural) for lookup in LOOKUPS}) == len(LOOKUPS)
    assert all(lookup.versions for lookup in LOOKUPS)
