"""Functions that create, bind and wait for pods."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from tests.kube.api import Api, Object
from tests.kube.image import IMAGE

PODS = "/api/v1/namespaces/default/pods"
_numbers = itertools.count()


def make_pod(api: Api, *, gpus: int = 0, command: Sequence[str] = (), annotations: Mapping[str, str] | None = None,
             **spec: object) -> str:  # fmt: skip
    """Create a pod for the gpusquad scheduler and return its unique name."""
    name = f"pod-{next(_numbers)}"
    container: Object = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never"}
    if command:
        container["command"] = list(command)
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    content = {"containers": [container], "schedulerName": "gpusquad", "restartPolicy": "Never", **spec}
    api.post(PODS, {"metadata": {"name": name, "annotations": dict(annotations or {})}, "spec": content})
    return name


def bind(api: Api, pod: str, node: str, annotations: Mapping[str, str] | None = None) -> None:
    """Bind the pod and write its annotations in one atomic request."""
    metadata = {"name": pod, "annotations": dict(annotations or {})}
    api.post(f"{PODS}/{pod}/binding", {"metadata": metadata, "target": {"kind": "Node", "name": node}})


def wait_for_phase(api: Api, pod: str, phase: str) -> Object:
    [found] = api.until(
        PODS,
        lambda pods: [pod["status"].get("phase") for pod in pods] == [phase],
        fieldSelector=f"metadata.name={pod}",
    )
    return found
