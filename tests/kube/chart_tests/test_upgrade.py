"""Tests that running pods survive upgrade, uninstall and another installation."""

from __future__ import annotations

from pathlib import Path

from tests.kube.chart import Release
from tests.kube.chart_tests.values import WITHOUT_PERSISTENCE
from tests.kube.chart_tests.workloads import JOBS, count_running, job_manifest, names_of, pod_manifest
from tests.kube.plane import ControlPlane
from tests.kube.pods import PODS


def test_pods_keep_running_through_upgrade_and_uninstall(cluster: ControlPlane, release: Release, tmp_path: Path):
    other = Release(cluster, "gpusquad-other", "other")
    other.install()
    with other.service(tmp_path / "home") as service:
        cluster.admin.post(PODS, pod_manifest("lone"))
        cluster.admin.post(JOBS, job_manifest("gang", 4))
        before = cluster.admin.until(PODS, lambda found: count_running(found) == 5)
        other.install({"agent": {"slots": 4}, "policy": {"mode": "fair"}})
        cluster.admin.post(PODS, pod_manifest("later"))
        cluster.admin.until(PODS, lambda found: count_running(found) == 6)
        assert len(service.scheduler.queries.unfinished()) == 3
    assert other.objects()
    other.uninstall()
    assert other.objects() == ["persistentvolumeclaim/gpusquad-other"]  # the history is kept
    after = {pod["metadata"]["uid"]: pod for pod in cluster.admin.get(PODS)["items"]}
    for pod in before:
        unchanged = after[pod["metadata"]["uid"]]
        assert unchanged["status"]["phase"] == "Running"
        assert "deletionTimestamp" not in unchanged["metadata"]
        assert unchanged["spec"] == pod["spec"]
        assert {owner["kind"] for owner in unchanged["metadata"].get("ownerReferences", ())} <= {"Job"}
        assert not [name for name in unchanged["metadata"].get("finalizers", ()) if "gpusquad" in name]


def test_pods_for_another_scheduler_name_are_placed(cluster: ControlPlane, release: Release, tmp_path: Path):
    named = Release(cluster, "gpusquad-named", "named")
    named.install({**WITHOUT_PERSISTENCE, "schedulerName": "night-shift"})
    try:
        with named.service(tmp_path / "home"):
            cluster.admin.post(PODS, pod_manifest("for-it", schedulerName="night-shift"))
            cluster.admin.post(PODS, pod_manifest("not-for-it"))
            cluster.admin.until(PODS, lambda found: count_running(found) == 1, timeout_s=10.0)
            assert names_of(cluster.admin.get(PODS, fieldSelector="spec.nodeName!=")["items"]) == {"for-it"}
    finally:
        named.uninstall()
