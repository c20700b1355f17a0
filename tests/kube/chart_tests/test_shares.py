"""Tests of pods that request a share of a card only by annotation."""

from __future__ import annotations

import pytest

from gpusquad.kube.names import GPU
from tests.kube.api import Object
from tests.kube.chart import Release
from tests.kube.chart_tests.workloads import sharing_pod_manifest
from tests.kube.pods import PODS


@pytest.mark.parametrize("resources", [{}, {"limits": {"cpu": "1"}}, {"requests": {"memory": "1Gi"}}], ids=str)
@pytest.mark.parametrize("annotations", [{"gpu-fraction": "0.5"}, {"gpu-memory": "4096"}], ids=str)
def test_share_annotation_adds_a_gpu_request(release: Release, annotations: dict[str, str], resources: Object):
    containers = release.plane.admin.post(PODS, sharing_pod_manifest(annotations, resources))["spec"]["containers"]
    for kind in ("limits", "requests"):
        assert containers[0]["resources"][kind] == resources.get(kind, resources.get("limits", {})) | {GPU: "1"}
        assert GPU not in containers[1].get("resources", {}).get(kind, {})


def test_gpu_request_is_added_to_the_named_container(release: Release):
    annotations = {"gpu-fraction": "0.5", "gpu-fraction-container-name": "second"}
    first, second = release.plane.admin.post(PODS, sharing_pod_manifest(annotations))["spec"]["containers"]
    assert first["resources"] == {}
    assert second["resources"]["limits"] == {GPU: "1"}


def test_other_pods_are_not_changed(release: Release):
    api = release.plane.admin
    whole = {"limits": {GPU: "2"}}
    containers = api.post(PODS, sharing_pod_manifest({"gpu-fraction": "0.5"}, whole))["spec"]["containers"]
    assert containers[0]["resources"]["limits"] == {GPU: "2"}
    unknown_container = sharing_pod_manifest(
        {"gpu-fraction": "0.5", "gpu-fraction-container-name": "third"}, name="nowhere"
    )
    other_scheduler = sharing_pod_manifest({"gpu-fraction": "0.5"}, name="theirs", schedulerName="kai-scheduler")
    unannotated = sharing_pod_manifest({}, name="plain")
    for pod in (unknown_container, other_scheduler, unannotated):
        assert all(container["resources"] == {} for container in api.post(PODS, pod)["spec"]["containers"])
