"""Devices of the device plugin, beside the cards they stand for.

A card may have several devices (slots), or one. Whoever asks for a part of a card takes a device too, and where no
agent of ours is, nobody would see to it that the part is the right one: such nodes take whole cards only.
"""

from __future__ import annotations

from dataclasses import replace

from gpusquad.engines.kubernetes.parse.container_requests import asked_by, effective
from gpusquad.engines.kubernetes.parse.quantity import in_whole
from gpusquad.kube.objects import GPU, PREFIX, Object
from gpusquad.model.job import Request

AGENT = PREFIX + "agent"
"""A node with an agent has plenty of these, others have none; each task that shares a card takes one."""
PLENTY = 1 << 20


def with_devices(request: Request, pod: Object) -> Request:
    """The same request, which also takes its devices."""
    if not request.cards:
        return request
    extras = dict(request.extras)
    devices = in_whole(effective(pod, asked_by(pod)).get(GPU, 0))
    if devices:
        extras[GPU] = devices
    if request.share is not None:
        extras[AGENT] = 1
    return replace(request, extras=tuple(sorted(extras.items())))
