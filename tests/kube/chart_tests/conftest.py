"""One control plane with the chart installed, for all tests of this folder; each leaves no pods behind."""

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
from tests.kube.chart_tests.values import SMALL
from tests.kube.chart_tests.workloads import pod_named, sharing_pod
from tests.kube.plane import ControlPlane, Settings
from tests.kube.pods import PODS

NODES = 4
CARDS_EACH = 4


@pytest.fixture(scope="package")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    return Audit(tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="package")
def cluster(audit: Audit) -> Iterator[ControlPlane]:
    """With what NVIDIA's stack leaves on a cluster: labels, and a runtime class."""
    settings = Settings(kwok=True, scheduler=True, apiserver_flags=(*audit.flags(), "--allow-privileged=true"))
    with ControlPlane(settings) as plane:
        plane.add_fake_nodes(NODES, CARDS_EACH, labels={"nvidia.com/gpu.present": "true"})
        for number in range(NODES):  # and what an agent says of them
            plane.admin.patch(f"/api/v1/nodes/fake-{number}", {"metadata": {"annotations": {CARDS: _cards(number)}}})
        plane.admin.post("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
        yield plane


@pytest.fixture(scope="package")
def release(cluster: ControlPlane) -> Release:
    found = Release(cluster)
    found.install(SMALL)
    found.wait_until_up()
    server, agent = found.api("gpusquad"), found.api("gpusquad-agent")
    cluster.admin.post(PODS, pod_named("probe", schedulerName="nobody"))
    note = {"metadata": {"annotations": {"a": "b"}}}
    # The API server takes policies up a little later than it stores them.
    for what in (
        lambda: is_refused(lambda: server.patch(f"{PODS}/probe?dryRun=All", note), "with its scheduler name"),
        lambda: is_refused(lambda: agent.patch("/api/v1/nodes/fake-1?dryRun=All", note), "own node"),
        lambda: GPU in str(cluster.admin.post(f"{PODS}?dryRun=All", sharing_pod({"gpu-fraction": "0.5"}))["spec"]),
    ):
        cluster.daemons["kube-apiserver"].wait_for("following the policies", what, 30.0)
    cluster.admin.delete(f"{PODS}/probe", gracePeriodSeconds="0")
    return found


@pytest.fixture
def service(release: Release, tmp_path: Path) -> Iterator[Service]:
    with release.service(tmp_path / "home") as started:
        yield started


@pytest.fixture(autouse=True)
def clean(cluster: ControlPlane) -> Iterator[None]:
    """Each test leaves no pods of its own."""
    yield
    cluster.kubectl("delete", "jobs,pods,podgroups.scheduling.k8s.io", "--all", "--cascade=foreground", "--timeout=30s")


def _cards(node: int) -> str:
    card = {"model": "NVIDIA H100", "memory_bytes": 80 << 30, "sms": 132, "domain": "", "ok": True}
    return json.dumps([{"id": f"GPU-{node}-{number}", **card} for number in range(CARDS_EACH)])
