"""Tests of the Kubernetes examples of the guide on a cluster with the chart."""

from __future__ import annotations

import pytest
import yaml

from gpusquad.app.service import Service
from tests.docs.pages import GUIDE, Block, blocks
from tests.kube.api import Object
from tests.kube.chart import Release
from tests.kube.chart_tests.workloads import count_running
from tests.kube.pods import PODS

PAGE = GUIDE / "kubernetes.md"
MANIFESTS = [block for block in blocks(PAGE, "yml") if "apiVersion:" in block.text]
VALUES = [block for block in blocks(PAGE, "yml") if "apiVersion:" not in block.text]


@pytest.mark.parametrize("block", MANIFESTS, ids=str)
def test_manifest_of_the_guide_runs(release: Release, service: Service, block: Block):
    for item in yaml.safe_load_all(block.text):
        release.plane.admin.post(_path(item), item)
    expected = sum(map(_pods_of, yaml.safe_load_all(block.text)))
    assert expected
    release.plane.admin.until(PODS, lambda found: count_running(found) == expected)


@pytest.mark.parametrize("block", VALUES, ids=str)
def test_values_of_the_guide_are_accepted(release: Release, block: Block):
    assert release.render(yaml.safe_load(block.text))


def _path(item: Object) -> str:
    plural = f"{item['kind'].lower()}s"
    version = item["apiVersion"]
    return f"/{'apis' if '/' in version else 'api'}/{version}/namespaces/default/{plural}"


def _pods_of(item: Object) -> int:
    return item["spec"]["completions"] if item["kind"] == "Job" else int(item["kind"] == "Pod")
