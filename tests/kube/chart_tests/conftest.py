"""Fixtures: one control plane with the chart installed, shared by the tests of this folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpusquad.app.service import Service
from gpusquad.kube.names import CARDS, GPU
from tests.kube.api import is_refused
from tests.kube.audit import Audit
from tests.kube.chart import Release
from tests.kube.chart_tests.values import WITHOUT_PERSISTENCE
from tests.kube.chart_tests.workloads import pod_manifest, sharing_pod_manifest
from tests.kube.plane import ControlPlane, Settings
from tests.kube.pods import PODS

NODES = 4
CARDS_EACH = 4


@pytest.fixture(scope="package")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    return Audit(tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="package")
def cluster(audit: Audit) -> Iterator[ControlPlane]:
    """Control plane with the node labels and the runtime class of NVIDIA's GPU operator."""
    settings = Settings(kwok=True, scheduler=True, apiserver_flags=(*audit.flags(), "--allow-privileged=true"))
    with ControlPlane(settings) as plane:
        plane.add_fake_nodes(NODES, CARDS_EACH, labels={"nvidia.com/gpu.present": "true"})
        for number in range(NODES):  # the annotation that an agent writes
            plane.admin.patch(f"/api/v1/nodes/fake-{number}", {"metadata": {"annotations": {CARDS: _cards(number)}}})
        plane.admin.post("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
        yield plane


@pytest.fixture(scope="package")
def release(cluster: ControlPlane) -> Release:
    installed = Release(cluster)
    installed.install(WITHOUT_PERSISTENCE)
    installed.wait_until_up()
    server, agent = installed.api("gpusquad"), installed.api("gpusquad-agent")
    cluster.admin.post(PODS, pod_manifest("probe", schedulerName="nobody"))
    annotation_patch = {"metadata": {"annotations": {"a": "b"}}}
    # The API server applies policies some time after it stores them.
    for is_applied in (
        lambda: is_refused(
            lambda: server.patch(f"{PODS}/probe?dryRun=All", annotation_patch), "with its scheduler name"
        ),
        lambda: is_refused(lambda: agent.patch("/api/v1/nodes/fake-1?dryRun=All", annotation_patch), "own node"),
        lambda: (
            GPU in str(cluster.admin.post(f"{PODS}?dryRun=All", sharing_pod_manifest({"gpu-fraction": "0.5"}))["spec"])
        ),
    ):
        cluster.daemons["kube-apiserver"].wait_for("applying the policies", is_applied, 30.0)
    cluster.admin.delete(f"{PODS}/probe", gracePeriodSeconds="0")
    return installed


@pytest.fixture
def service(release: Release, tmp_path: Path) -> Iterator[Service]:
    with release.service(tmp_path / "home") as started:
        yield started


@pytest.fixture(autouse=True)
def clean(cluster: ControlPlane) -> Iterator[None]:
    """Delete jobs, pods and pod groups after each test."""
    yield
    cluster.kubectl("delete", "jobs,pods,podgroups.scheduling.k8s.io", "--all", "--cascade=foreground", "--timeout=30s")


def _cards(node: int) -> str:
    card = {"model": "NVIDIA H100", "memory_bytes": 80 << 30, "sms": 132, "domain": "", "ok": True}
    return json.dumps([{"id": f"GPU-{node}-{number}", **card} for number in range(CARDS_EACH)])
