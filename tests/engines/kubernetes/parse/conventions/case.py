"""A test case: a pod, the objects around it and its expected group."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.engines.kubernetes.parse.groups import RoleSize
from gpusquad.kube.objects import Object


@dataclass(frozen=True)
class Case:
    pod: Object
    items: tuple[Object, ...]
    kind: str
    name: str
    size: int
    least: int
    recreates: bool = False
    parts: tuple[RoleSize, ...] = ()
