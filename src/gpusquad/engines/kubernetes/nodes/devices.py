"""Device-plugin devices that a request takes in addition to its cards.

A card has one or more devices (device slots). A task with a share takes a device too. A node without an agent takes
whole cards only, because nothing there would enforce the share.
"""

from __future__ import annotations

from dataclasses import replace

from gpusquad.engines.kubernetes.parse.container_requests import container_requests, pod_amounts
from gpusquad.kube.names import AGENT, GPU
from gpusquad.kube.objects import Object
from gpusquad.kube.quantity import units_from_nanos
from gpusquad.model.job import Request

PLENTY = 1 << 20


def with_devices(request: Request, pod: Object) -> Request:
    """The same request with its devices."""
    if not request.cards:
        return request
    extras = dict(request.extras)
    devices = units_from_nanos(pod_amounts(pod, container_requests(pod)).get(GPU, 0))
    if devices:
        extras[GPU] = devices
    if request.share is not None:
        extras[AGENT] = 1
    return replace(request, extras=tuple(sorted(extras.items())))
