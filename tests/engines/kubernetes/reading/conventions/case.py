"""A pod, the objects around it, and the group that it should be found in."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.engines.kubernetes.objects import Object
from gpusquad.engines.kubernetes.reading.groups import Part


@dataclass(frozen=True)
class Case:
    pod: Object
    items: tuple[Object, ...]
    kind: str
    name: str
    size: int
    least: int
    remakes: bool = False
    parts: tuple[Part, ...] = ()
