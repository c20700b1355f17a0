"""Devices of the device plugin, beside the cards they stand for.

A card may have several devices (slots), or one. Whoever asks for a part of a card takes a device too, and where no
agent of ours is, nobody would see to it that the part is the right one: such nodes take whole cards only.
"""

from __future__ import annotations

from dataclasses import replace

from gpusquad.engines.kubernetes.parse.container_requests import asked_by, effective
from gpusquad.kube.names import AGENT, GPU
from gpusquad.kube.objects import Object
from gpusquad.kube.quantity import units_from_nanos
from gpusquad.model.job import Request

PLENTY = 1 << 20


def with_devices(request: Request, pod: Object) -> Request:
    """The same request, which also takes its devices."""
    if not request.cards:
        return request
    extras = dict(request.extras)
    devices = units_from_nanos(effective(pod, asked_by(pod)).get(GPU, 0))
    if devices:
        extras[GPU] = devices
    if request.share is not None:
        extras[AGENT] = 1
    return replace(request, extras=tuple(sorted(extras.items())))
