"""Tests of constraints between pods that arrive together: Deployments on a real control plane."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kube.api import Object
from tests.kube.plane import ControlPlane, Settings
from tests.kube.service import serving

DEFAULT = "/api/v1/namespaces/default"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
HOSTNAME = "kubernetes.io/hostname"
RACK = "example.com/rack"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SAME_APP = {"labelSelector": {"matchLabels": {"app": "web"}}}
RACKS = "ab"
MANY = 50


@pytest.fixture(scope="module")
def racks() -> Iterator[ControlPlane]:
    """Control plane with four nodes, by turns in two racks."""
    with ControlPlane(Settings(kwok=True)) as plane:
        for number in range(4):
            plane.add_fake_nodes(1, 8, prefix=f"n{number}", labels={RACK: RACKS[number % 2]})
        yield plane


@pytest.fixture
def empty(racks: ControlPlane, tmp_path: Path) -> Iterator[ControlPlane]:
    with serving(racks, tmp_path, mode="standard"):
        yield racks
    racks.admin.delete(DEPLOYMENTS)
    racks.admin.until(DEPLOYMENTS, lambda found: not found)
    for kind in ("replicasets", "pods"):
        path = f"{DEPLOYMENTS.removesuffix('deployments')}replicasets" if kind == "replicasets" else f"{DEFAULT}/pods"
        racks.admin.delete(path, gracePeriodSeconds="0")
        racks.admin.until(path, lambda found: not found)
    racks.admin.delete(f"{DEFAULT}/events")


def deploy(plane: ControlPlane, replicas: int, gpus: int = 1, port: int = 0, **spec: object) -> list[Object]:
    """Create a Deployment and return its pods when all of them are bound."""
    container: Object = {"name": "main", "image": "x"}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    if port:
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    template = {"metadata": {"labels": {"app": "web"}},
                "spec": {"schedulerName": "gpusquad", "containers": [container], **spec}}  # fmt: skip
    content = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    plane.admin.post(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": content})
    return plane.admin.until(
        f"{DEFAULT}/pods",
        lambda pods: len(pods) == replicas and all(pod["spec"].get("nodeName") for pod in pods),
    )


def per_node(pods: list[Object]) -> list[int]:
    return sorted(Counter(pod["spec"]["nodeName"] for pod in pods).values())


def evictions(plane: ControlPlane) -> list[str]:
    found = plane.admin.get(f"{DEFAULT}/events", fieldSelector="reason=Evicted")["items"]
    return [event["message"] for event in found]


def spread(skew: int) -> list[Object]:
    return [{"topologyKey": HOSTNAME, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **SAME_APP}]


def test_replicas_that_repel_each_other_are_on_different_nodes(empty: ControlPlane) -> None:
    term = {"topologyKey": HOSTNAME, **SAME_APP}
    assert per_node(deploy(empty, 4, affinity={"podAntiAffinity": {REQUIRED: [term]}})) == [1, 1, 1, 1]
    assert evictions(empty) == []


def test_replicas_are_spread_over_the_nodes(empty: ControlPlane) -> None:
    assert per_node(deploy(empty, 4, topologySpreadConstraints=spread(1))) == [1, 1, 1, 1]
    assert evictions(empty) == []


def test_replicas_that_attract_each_other_are_in_one_rack(empty: ControlPlane) -> None:
    """Two nodes have room for them: without the affinity, one of each rack is used."""
    term = {"topologyKey": RACK, **SAME_APP}
    pods = deploy(empty, 4, gpus=4, affinity={"podAffinity": {REQUIRED: [term]}})
    nodes = {pod["spec"]["nodeName"] for pod in pods}
    assert nodes in ({"n0-0", "n2-0"}, {"n1-0", "n3-0"})
    assert evictions(empty) == []


def test_replicas_with_one_host_port_are_on_different_nodes(empty: ControlPlane) -> None:
    assert per_node(deploy(empty, 4, port=7000)) == [1, 1, 1, 1]
    assert evictions(empty) == []


def test_many_replicas_at_once_are_spread_over_the_nodes(empty: ControlPlane) -> None:
    pods = deploy(empty, MANY, gpus=0, topologySpreadConstraints=spread(1))
    assert per_node(pods) == [12, 12, 13, 13]
    assert evictions(empty) == []


def test_pod_with_a_claim_that_is_bound_late_names_the_claim(empty: ControlPlane) -> None:
    api = empty.admin
    late = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    api.post("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "late"}, **late})
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "late",
    }
    api.post(f"{DEFAULT}/persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": claim})
    spec = {"schedulerName": "gpusquad", "containers": [{"name": "main", "image": "x"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}  # fmt: skip
    api.post(f"{DEFAULT}/pods", {"metadata": {"name": "alone"}, "spec": spec})
    why = "PersistentVolumeClaim default/data is bound only when a pod that mounts it is placed (WaitForFirstConsumer)"
    api.until(f"{DEFAULT}/pods", lambda pods: any(why in message(pod) for pod in pods))


def message(pod: Object) -> str:
    """Why the pod is pending."""
    conditions = pod["status"].get("conditions") or ()
    return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")
