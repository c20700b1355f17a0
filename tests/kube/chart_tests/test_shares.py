"""Pods that ask for a share of a card by annotation alone."""

from __future__ import annotations

import pytest

from gpusquad.kube.names import GPU
from tests.kube.api import Object
from tests.kube.chart import Release
from tests.kube.chart_tests.workloads import sharing_pod
from tests.kube.pods import PODS


@pytest.mark.parametrize("resources", [{}, {"limits": {"cpu": "1"}}, {"requests": {"memory": "1Gi"}}], ids=str)
@pytest.mark.parametrize("said", [{"gpu-fraction": "0.5"}, {"gpu-memory": "4096"}], ids=str)
def test_a_share_by_annotation_alone_gets_a_card(release: Release, said: dict[str, str], resources: Object):
    made = release.plane.admin.post(PODS, sharing_pod(said, resources))["spec"]["containers"]
    for kind in ("limits", "requests"):
        assert made[0]["resources"][kind] == resources.get(kind, resources.get("limits", {})) | {GPU: "1"}
        assert GPU not in made[1].get("resources", {}).get(kind, {})


def test_the_container_that_is_named_gets_the_card(release: Release):
    said = {"gpu-fraction": "0.5", "gpu-fraction-container-name": "second"}
    first, second = release.plane.admin.post(PODS, sharing_pod(said))["spec"]["containers"]
    assert first["resources"] == {}
    assert second["resources"]["limits"] == {GPU: "1"}


def test_other_pods_are_left_as_they_are(release: Release):
    api = release.plane.admin
    whole = {"limits": {GPU: "2"}}
    made = api.post(PODS, sharing_pod({"gpu-fraction": "0.5"}, whole))["spec"]["containers"]
    assert made[0]["resources"]["limits"] == {GPU: "2"}
    nowhere = sharing_pod({"gpu-fraction": "0.5", "gpu-fraction-container-name": "third"}, name="nowhere")
    theirs = sharing_pod({"gpu-fraction": "0.5"}, name="theirs", schedulerName="kai-scheduler")
    plain = sharing_pod({}, name="plain")
    for pod in (nowhere, theirs, plain):
        assert all(container["resources"] == {} for container in api.post(PODS, pod)["spec"]["containers"])
