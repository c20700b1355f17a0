"""Devices of each container by the kubelet's pod-resources interface (v1)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import grpc

from gpusquad.agent.kubernetes.messages import ListPodResourcesRequest, ListPodResourcesResponse

_TIMEOUT_S = 5.0
_TRIES = 20
_PAUSE_S = 0.05
_RETRIED = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
"""The kubelet answers at most 100 requests per second, and it may just be starting."""


class PodResourcesUnavailable(Exception):
    """The kubelet does not answer."""


@dataclass(frozen=True, slots=True)
class ListedPod:
    """A pod that the kubelet runs or is about to run. Init containers are never listed."""

    namespace: str
    name: str
    slots: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Slots of our resource by container. Containers without any are left out."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class PodResources(Protocol):
    def list(self) -> list[ListedPod]: ...


class KubeletPodResources:
    """Calls the kubelet. Safe while the kubelet waits for our answer: it holds no lock that this call needs."""

    def __init__(self, socket: Path, resource: str) -> None:
        self._resource = resource
        # Go's server refuses an authority that is derived from a path.
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=[("grpc.default_authority", "localhost")])
        self._list = self._channel.unary_unary(
            "/v1.PodResourcesLister/List",
            request_serializer=ListPodResourcesRequest.SerializeToString,
            response_deserializer=ListPodResourcesResponse.FromString,
        )

    def list(self) -> list[ListedPod]:
        for attempt in range(_TRIES):
            try:
                return read_listed(self._list(ListPodResourcesRequest(), timeout=_TIMEOUT_S), self._resource)
            except grpc.RpcError as error:
                if error.code() not in _RETRIED or attempt == _TRIES - 1:
                    raise PodResourcesUnavailable(
                        f"cannot read from the kubelet which pod has which devices: {error.details()}"
                    ) from error
                time.sleep(_PAUSE_S)
        raise AssertionError("unreachable")

    def close(self) -> None:
        self._channel.close()


def read_listed(answer: Any, resource: str) -> list[ListedPod]:
    """The kubelet repeats the resource name for each device."""
    found = []
    for pod in answer.pod_resources:
        slots: dict[str, tuple[str, ...]] = {}
        for container in pod.containers:
            ids = [slot for entry in container.devices if entry.resource_name == resource for slot in entry.device_ids]
            if ids:
                slots[container.name] = tuple(ids)
        found.append(ListedPod(pod.namespace, pod.name, slots))
    return found
