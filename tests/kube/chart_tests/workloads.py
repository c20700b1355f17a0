"""Manifests of pods and jobs, and functions that read pod lists."""

from __future__ import annotations

from gpusquad.kube.names import GPU
from tests.kube.api import Object

JOBS = "/apis/batch/v1/namespaces/default/jobs"


def pod_manifest(name: str, **spec: object) -> Object:
    container = {"name": "main", "image": "none", "resources": {"limits": {GPU: "1"}}}
    content = {"schedulerName": "gpusquad", "restartPolicy": "Never", "containers": [container], **spec}
    return {"metadata": {"name": name}, "spec": content}


def job_manifest(name: str, pods: int, **spec: object) -> Object:
    template = {"spec": pod_manifest(name, **spec)["spec"]}
    return {
        "metadata": {"name": name},
        "spec": {"completions": pods, "parallelism": pods, "completionMode": "Indexed", "template": template},
    }


def sharing_pod_manifest(
    annotations: dict[str, str], resources: Object | None = None, name: str = "share", **spec: object
) -> Object:
    pod = pod_manifest(name, **spec)
    pod["metadata"]["annotations"] = annotations
    second = {"name": "second", "image": "none"}
    pod["spec"]["containers"] = [{"name": "main", "image": "none", "resources": resources or {}}, second]
    return pod


def count_running(pods: list[Object]) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def names_of(pods: list[Object]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}
