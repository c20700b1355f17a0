"""Our own names, for pods that nothing else groups: ``gpusquad.io/group`` and ``gpusquad.io/group-size``."""

from __future__ import annotations

from gpusquad.engines.kubernetes.parse.conventions.owners import remade
from gpusquad.engines.kubernetes.parse.groups import Membership, of_name
from gpusquad.engines.kubernetes.parse.lookups import Find
from gpusquad.kube.annotations import at, count, either
from gpusquad.kube.objects import PREFIX, Object

NAME = PREFIX + "group"
SIZE = PREFIX + "group-size"


def ours(pod: Object, find: Find) -> Membership | None:
    name = either(pod, NAME)
    if not name:
        return None
    size = count(either(pod, SIZE) or None, at(SIZE), low=1)
    return of_name(pod, NAME, name, size, remakes=remade(pod, find, size))
