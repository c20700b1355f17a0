"""Who may touch which pods and nodes, beyond what rights can say."""

from __future__ import annotations

import pytest

from gpusquad.app.service import Service
from gpusquad.kube.names import ATTEMPT, CARDS, DEADLINE, ESTIMATE, JOB, KNOWN, WEIGHT
from tests.kube.api import Api, Object, Refused, is_refused
from tests.kube.chart import Release
from tests.kube.chart_tests.workloads import pod_named, running
from tests.kube.pods import PODS


def test_the_server_may_not_delete_pods_that_others_place(release: Release):
    plane, server = release.plane, release.api("gpusquad")
    plane.admin.post(PODS, pod_named("theirs", schedulerName="default-scheduler"))
    plane.admin.post(PODS, pod_named("ours"))
    with pytest.raises(Refused, match="only change pods"):
        server.delete(f"{PODS}/theirs")
    server.patch(f"{PODS}/ours", {"metadata": {"annotations": {"gpusquad.io/estimate": "2h"}}})
    for change in ({"metadata": {"labels": {"is": "mine"}}}, {"spec": {"activeDeadlineSeconds": 1}}):
        with pytest.raises(Refused, match="only annotate"):
            server.patch(f"{PODS}/ours", change)
    server.delete(f"{PODS}/ours")


SCHEDULERS_WORD = (WEIGHT, DEADLINE, KNOWN, CARDS, JOB, ATTEMPT)


def test_what_the_scheduler_wrote_on_a_pod_is_not_its_users_to_change(release: Release):
    plane, server, user = release.plane, release.api("gpusquad"), _editor(release)
    plane.admin.post(PODS, pod_named("waits"))
    plane.admin.post(PODS, pod_named("placed", nodeName="fake-0"))
    plane.admin.post(PODS, pod_named("theirs", schedulerName="default-scheduler", nodeName="fake-0"))
    release.plane.daemons["kube-apiserver"].wait_for(
        "following the policies",
        lambda: is_refused(lambda: user.patch(f"{PODS}/placed?dryRun=All", _says(WEIGHT, "7")), "set by the scheduler"),
        30.0,
    )
    for name in SCHEDULERS_WORD:
        said = _says(name, "7")
        server.patch(f"{PODS}/placed", said)
        user.patch(f"{PODS}/placed", {**said, "metadata": {**said["metadata"], "labels": {"is": "his"}}})
        for text in ("1000000", "", None):
            with pytest.raises(Refused, match="set by the scheduler"):
                user.patch(f"{PODS}/placed", _says(name, text))
        for pod in ("waits", "theirs"):
            user.patch(f"{PODS}/{pod}", said)
        plane.admin.patch(f"{PODS}/placed", _says(name, None))  # who may bind pods
        with pytest.raises(Refused, match="set by the scheduler"):
            user.patch(f"{PODS}/placed", said)
    user.patch(f"{PODS}/placed", _says(ESTIMATE, "2h"))
    user.delete(f"{PODS}/placed", gracePeriodSeconds="0")


def test_what_stands_there_all_the_same_is_put_back(release: Release, service: Service):
    """By somebody who may bind pods, or where the policies are off."""
    api = release.plane.admin
    api.post(PODS, pod_named("lone"))
    [pod] = api.until(PODS, lambda found: running(found) == 1)
    assert pod["metadata"]["annotations"][WEIGHT] == "1.0"
    api.patch(f"{PODS}/lone", _says(WEIGHT, "1000000"))
    service.scheduler.reload_tenants()  # looks at all pods
    api.until(PODS, lambda found: found[0]["metadata"]["annotations"][WEIGHT] == "1.0")


def _says(name: str, text: str | None) -> Object:
    return {"metadata": {"annotations": {name: text}}}


def _editor(release: Release) -> Api:
    """Somebody with the rights of most users: Kubernetes' own role `edit`, in one namespace."""
    plane, account = release.plane, {"kind": "ServiceAccount", "name": "somebody", "namespace": release.namespace}
    plane.admin.post(f"/api/v1/namespaces/{release.namespace}/serviceaccounts", {"metadata": {"name": "somebody"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    binding = {"metadata": {"name": "somebody"}, "subjects": [account], "roleRef": role}
    plane.admin.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
    return release.api("somebody")


def test_an_agent_may_only_annotate_its_own_node_and_evict_from_it(release: Release):
    plane = release.plane
    node = plane.admin.get("/api/v1/nodes/fake-0")
    agent = release.api("gpusquad-agent", kind="Node", name="fake-0", uid=node["metadata"]["uid"])
    cards = {"metadata": {"annotations": {"test.gpusquad.io/cards": "[]"}}}
    agent.patch("/api/v1/nodes/fake-0", cards)
    for path, change in (
        ("/api/v1/nodes/fake-1", cards),
        ("/api/v1/nodes/fake-0", {"metadata": {"labels": {"is": "mine"}}}),
        ("/api/v1/nodes/fake-0", {"spec": {"unschedulable": True}}),
    ):
        with pytest.raises(Refused, match="an agent may only"):
            agent.patch(path, change)
    plane.admin.post(PODS, pod_named("here", nodeName="fake-0"))
    plane.admin.post(PODS, pod_named("there", nodeName="fake-1"))
    agent.delete(f"{PODS}/here")
    with pytest.raises(Refused, match="own node"):
        agent.delete(f"{PODS}/there")
    with pytest.raises(Refused, match="own node"):
        release.api("gpusquad-agent").delete(f"{PODS}/there")  # a token of no pod is of no node
