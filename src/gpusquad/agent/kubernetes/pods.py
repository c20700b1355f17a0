"""Pods as the agent sees them, parsed from the API server's JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gpusquad.kube.names import ATTEMPT, CARDS, JOB
from gpusquad.kube.quantity import UNIT_NANOS, parse_quantity

Object = dict[str, Any]

_JOB_ID = re.compile(r"[\w.-]{1,128}", re.ASCII)
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Container:
    """A container that requests our resource."""

    name: str
    count: int
    is_init: bool = False
    """Ends before the other containers start. The kubelet passes its devices on to them."""
    limits: Mapping[str, str] = field(default_factory=dict)
    run_as: tuple[int, int] | None = None
    """User and group id on the node. None: as the image says, or mapped by a user namespace."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod on this node."""

    namespace: str
    name: str
    uid: str
    containers: tuple[Container, ...] = ()
    """Containers that request our resource, in the order in which the kubelet gives them devices."""
    pin: Mapping[str, tuple[str, ...]] | None = None
    """Cards by container. None: the scheduler of this pod chose no cards."""
    pin_error: str = ""
    has_ended: bool = False
    is_leaving: bool = False
    killed_at_s: float | None = None
    """End of its grace period by the API server's clock, if it is being deleted."""
    is_started: bool = False
    """The kubelet has reported that it was admitted."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def job(self) -> str:
        return self.annotations.get(JOB, "")

    @property
    def run(self) -> tuple[str, int | None] | None:
        """The job and its attempt, if known; None: not a pod of a job. Users may write anything there."""
        if self.pin is None or not _JOB_ID.fullmatch(self.job):
            return None
        attempt = self.annotations.get(ATTEMPT, "")
        return self.job, int(attempt) if attempt.isascii() and attempt.isdigit() and len(attempt) < 10 else None

    @property
    def pinned_cards(self) -> set[str]:
        return {card for cards in (self.pin or {}).values() for card in cards}


def read_pod(item: Object, resource: str) -> Pod:
    """Does not fail on an invalid pin. It is reported when the pod requests its cards."""
    metadata, status = item["metadata"], item.get("status") or {}
    annotations = metadata.get("annotations") or {}
    pin, error = read_pin(annotations.get(CARDS))
    return Pod(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata["uid"],
        containers=tuple(_containers(item.get("spec") or {}, resource)),
        pin=pin,
        pin_error=error,
        has_ended=status.get("phase") in _ENDED,
        is_leaving="deletionTimestamp" in metadata,
        killed_at_s=_seconds(metadata.get("deletionTimestamp")),
        is_started="startTime" in status,
        annotations=annotations,
        priority=(item.get("spec") or {}).get("priority") or 0,
    )


def read_pin(text: str | None) -> tuple[Mapping[str, tuple[str, ...]] | None, str]:
    """The pin, or why it is invalid."""
    if text is None:
        return None, ""
    try:
        found = json.loads(text)
        if not isinstance(found, dict) or not all(_is_cards(cards) for cards in found.values()):
            raise ValueError('write {"container": ["card", …]}')
    except (ValueError, RecursionError) as error:
        return None, f"cannot read the annotation {CARDS}: {error}"
    return {name: tuple(cards) for name, cards in found.items()}, ""


def _seconds(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None


def _is_cards(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(card, str) for card in value)


def _containers(spec: Object, resource: str) -> Iterator[Container]:
    """The kubelet only reads limits. For such resources they equal the requests."""
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            limits = (container.get("resources") or {}).get("limits") or {}
            count = parse_quantity(limits.get(resource, "0"), "limits", resource) // UNIT_NANOS
            if count > 0:
                is_init = kind == "initContainers" and container.get("restartPolicy") != "Always"
                yield Container(container["name"], count, is_init, limits, _run_as(spec, container))


def _run_as(spec: Object, container: Object) -> tuple[int, int] | None:
    """The container's security context takes precedence over the pod's."""
    security = {**(spec.get("securityContext") or {}), **(container.get("securityContext") or {})}
    if security.get("runAsUser") is None or spec.get("hostUsers") is False:
        return None
    return security["runAsUser"], security.get("runAsGroup") or 0
