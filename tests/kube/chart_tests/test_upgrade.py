"""Pods run on through upgrade and uninstall, and beside another installation."""

from __future__ import annotations

from pathlib import Path

from tests.kube.chart import Release
from tests.kube.chart_tests.values import SMALL
from tests.kube.chart_tests.workloads import JOBS, job_named, names_of, pod_named, running
from tests.kube.plane import ControlPlane
from tests.kube.pods import PODS


def test_pods_run_on_through_upgrade_and_uninstall(cluster: ControlPlane, release: Release, tmp_path: Path):
    other = Release(cluster, "gpusquad-other", "other")
    other.install()
    with other.service(tmp_path / "home") as service:
        cluster.admin.post(PODS, pod_named("lone"))
        cluster.admin.post(JOBS, job_named("gang", 4))
        before = cluster.admin.until(PODS, lambda found: running(found) == 5)
        other.install({"agent": {"slots": 4}, "policy": {"mode": "fair"}})
        cluster.admin.post(PODS, pod_named("later"))
        cluster.admin.until(PODS, lambda found: running(found) == 6)
        assert len(service.scheduler.unfinished()) == 3
    assert other.objects()
    other.uninstall()
    assert other.objects() == ["persistentvolumeclaim/gpusquad-other"]  # the history is kept
    after = {pod["metadata"]["uid"]: pod for pod in cluster.admin.get(PODS)["items"]}
    for pod in before:
        kept = after[pod["metadata"]["uid"]]
        assert kept["status"]["phase"] == "Running"
        assert "deletionTimestamp" not in kept["metadata"]
        assert kept["spec"] == pod["spec"]
        assert {owner["kind"] for owner in kept["metadata"].get("ownerReferences", ())} <= {"Job"}
        assert not [name for name in kept["metadata"].get("finalizers", ()) if "gpusquad" in name]


def test_pods_for_another_scheduler_name_are_placed(cluster: ControlPlane, release: Release, tmp_path: Path):
    named = Release(cluster, "gpusquad-named", "named")
    named.install({**SMALL, "schedulerName": "night-shift"})
    try:
        with named.service(tmp_path / "home"):
            cluster.admin.post(PODS, pod_named("for-it", schedulerName="night-shift"))
            cluster.admin.post(PODS, pod_named("not-for-it"))
            cluster.admin.until(PODS, lambda found: running(found) == 1, timeout_s=10.0)
            assert names_of(cluster.admin.get(PODS, fieldSelector="spec.nodeName!=")["items"]) == {"for-it"}
    finally:
        named.uninstall()
