"""Tests of the chart's objects: the API server accepts them, and invalid values are refused."""

from __future__ import annotations

import subprocess

import pytest
import yaml

from tests.kube.api import Object, Refused
from tests.kube.chart import HelmFailed, Release, of_kind
from tests.kube.chart_tests.values import CASES, POSTGRESQL
from tests.kube.plane import ControlPlane


@pytest.mark.parametrize("name", CASES)
def test_api_server_accepts_every_object(cluster: ControlPlane, name: str):
    text = yaml.safe_dump_all(Release(cluster, "gpusquad-dry", "default").render(CASES[name]))
    command = ("apply", "--server-side", "--dry-run=server", "--namespace", "default", "-f", "-")
    process = subprocess.run(
        [cluster.programs["kubectl"], "--kubeconfig", cluster.kubeconfig(), *command],
        input=text, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replicas": 2}, "needs PostgreSQL"),
        ({"store": {"url": "postgresql://gpusquad:secret@db/gpusquad"}}, "url"),
        ({"schedulerName": "default-scheduler"}, "schedulerName"),
        ({"agent": {"slotz": 2}}, "slotz"),
        ({"monitoring": {"enabled": True}}, "tokenSecret"),
    ],
    ids=str,
)
def test_invalid_values_are_refused(release: Release, values: Object, message: str):
    with pytest.raises(HelmFailed, match=message):
        release.render(values)


def test_default_replicas_depend_on_the_store(release: Release):
    with_sqlite = of_kind(release.render(), "Deployment")["spec"]
    with_postgresql = of_kind(release.render({"store": POSTGRESQL}), "Deployment")["spec"]
    assert (with_sqlite["replicas"], with_sqlite["strategy"]["type"]) == (1, "Recreate")
    assert (with_postgresql["replicas"], with_postgresql["strategy"]["type"]) == (2, "RollingUpdate")
    assert of_kind(release.render({"store": POSTGRESQL, "replicas": 1}), "Deployment")["spec"]["replicas"] == 1


def test_service_monitor_uses_a_host_name_that_the_server_accepts(release: Release):
    objects = release.render({"monitoring": {"enabled": True, "tokenSecret": {"name": "token"}}})
    [address, _] = of_kind(objects, "ServiceMonitor")["spec"]["endpoints"][0]["relabelings"]
    config = of_kind(objects, "ConfigMap")["data"]["config.toml"]
    assert address["replacement"].partition(":")[0] in config


def test_server_pod_meets_the_restricted_pod_security_standard(release: Release):
    """The API server checks it in a namespace that enforces `restricted`."""
    name = "strict"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    release.plane.admin.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    release.plane.admin.until(accounts, bool)
    template = of_kind(release.render(), "Deployment")["spec"]["template"]
    template["spec"] |= {"serviceAccountName": "default"}
    pod = {"metadata": {"name": "server", "labels": template["metadata"]["labels"]}, "spec": template["spec"]}
    release.plane.admin.post(f"/api/v1/namespaces/{name}/pods", pod)
    agent = of_kind(release.render(), "DaemonSet")["spec"]["template"]["spec"] | {"serviceAccountName": "default"}
    with pytest.raises(Refused, match="hostPath"):
        release.plane.admin.post(f"/api/v1/namespaces/{name}/pods", {"metadata": {"name": "agent"}, "spec": agent})
