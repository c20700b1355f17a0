"""Tests of the admission policies that limit which pods and nodes the server, agents and users may change."""

from __future__ import annotations

import pytest

from gpusquad.app.service import Service
from gpusquad.kube.names import ATTEMPT, CARDS, DEADLINE, ESTIMATE, JOB, KNOWN, MEASURED_RATES, WEIGHT
from tests.kube.api import Api, Object, Refused, is_refused
from tests.kube.chart import Release
from tests.kube.chart_tests.workloads import count_running, pod_manifest
from tests.kube.pods import PODS


def test_server_may_change_only_pods_with_its_scheduler_name(release: Release):
    plane, server = release.plane, release.api("gpusquad")
    plane.admin.post(PODS, pod_manifest("theirs", schedulerName="default-scheduler"))
    plane.admin.post(PODS, pod_manifest("ours"))
    with pytest.raises(Refused, match="only change pods"):
        server.delete(f"{PODS}/theirs")
    server.patch(f"{PODS}/ours", {"metadata": {"annotations": {"gpusquad.io/estimate": "2h"}}})
    for change in ({"metadata": {"labels": {"is": "mine"}}}, {"spec": {"activeDeadlineSeconds": 1}}):
        with pytest.raises(Refused, match="only annotate"):
            server.patch(f"{PODS}/ours", change)
    server.delete(f"{PODS}/ours")


SCHEDULER_ANNOTATIONS = (WEIGHT, DEADLINE, MEASURED_RATES, KNOWN, CARDS, JOB, ATTEMPT)


def test_users_may_not_change_annotations_of_the_scheduler(release: Release):
    plane, server, user = release.plane, release.api("gpusquad"), _editor(release)
    plane.admin.post(PODS, pod_manifest("waits"))
    plane.admin.post(PODS, pod_manifest("placed", nodeName="fake-0"))
    plane.admin.post(PODS, pod_manifest("theirs", schedulerName="default-scheduler", nodeName="fake-0"))
    release.plane.daemons["kube-apiserver"].wait_for(
        "applying the policies",
        lambda: is_refused(
            lambda: user.patch(f"{PODS}/placed?dryRun=All", _annotation_patch(WEIGHT, "7")), "set by the scheduler"
        ),
        30.0,
    )
    for name in SCHEDULER_ANNOTATIONS:
        change_by_scheduler = _annotation_patch(name, "7")
        server.patch(f"{PODS}/placed", change_by_scheduler)
        user.patch(
            f"{PODS}/placed",
            {**change_by_scheduler, "metadata": {**change_by_scheduler["metadata"], "labels": {"is": "his"}}},
        )
        for text in ("1000000", "", None):
            with pytest.raises(Refused, match="set by the scheduler"):
                user.patch(f"{PODS}/placed", _annotation_patch(name, text))
        for pod in ("waits", "theirs"):
            user.patch(f"{PODS}/{pod}", change_by_scheduler)
        plane.admin.patch(
            f"{PODS}/placed", _annotation_patch(name, None)
        )  # the administrator has the right to bind pods
        with pytest.raises(Refused, match="set by the scheduler"):
            user.patch(f"{PODS}/placed", change_by_scheduler)
    user.patch(f"{PODS}/placed", _annotation_patch(ESTIMATE, "2h"))
    user.delete(f"{PODS}/placed", gracePeriodSeconds="0")


def test_changed_scheduler_annotation_is_restored(release: Release, service: Service):
    """A user with the right to bind pods can change it, and any editor where the policies are disabled."""
    api = release.plane.admin
    api.post(PODS, pod_manifest("lone"))
    [pod] = api.until(PODS, lambda found: count_running(found) == 1)
    assert pod["metadata"]["annotations"][WEIGHT] == "1.0"
    api.patch(f"{PODS}/lone", _annotation_patch(WEIGHT, "1000000"))
    service.scheduler.reload_tenants()  # checks all pods
    api.until(PODS, lambda found: found[0]["metadata"]["annotations"][WEIGHT] == "1.0")


def _annotation_patch(name: str, text: str | None) -> Object:
    return {"metadata": {"annotations": {name: text}}}


def _editor(release: Release) -> Api:
    """Return the API client of a user with the built-in role `edit` in one namespace."""
    plane, account = release.plane, {"kind": "ServiceAccount", "name": "somebody", "namespace": release.namespace}
    plane.admin.post(f"/api/v1/namespaces/{release.namespace}/serviceaccounts", {"metadata": {"name": "somebody"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    binding = {"metadata": {"name": "somebody"}, "subjects": [account], "roleRef": role}
    plane.admin.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
    return release.api("somebody")


def test_agent_may_only_annotate_its_own_node_and_evict_from_it(release: Release):
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
    plane.admin.post(PODS, pod_manifest("here", nodeName="fake-0"))
    plane.admin.post(PODS, pod_manifest("there", nodeName="fake-1"))
    agent.delete(f"{PODS}/here")
    with pytest.raises(Refused, match="own node"):
        agent.delete(f"{PODS}/there")
    with pytest.raises(Refused, match="own node"):
        release.api("gpusquad-agent").delete(f"{PODS}/there")  # a token that is bound to no pod belongs to no node
