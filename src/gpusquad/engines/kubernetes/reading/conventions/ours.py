"""Our own names, for pods that nothing else groups: ``gpusquad.io/group`` and ``gpusquad.io/group-size``."""

from __future__ import annotations

from gpusquad.engines.kubernetes.objects import PREFIX, Object
from gpusquad.engines.kubernetes.reading.annotations import at, count, either
from gpusquad.engines.kubernetes.reading.conventions.owners import remade
from gpusquad.engines.kubernetes.reading.groups import Membership, of_name
from gpusquad.engines.kubernetes.reading.lookups import Find

NAME = PREFIX + "group"
SIZE = PREFIX + "group-size"


def ours(pod: Object, find: Find) -> Membership | None:
    name = either(pod, NAME)
    if not name:
        return None
    size = count(either(pod, SIZE) or None, at(SIZE), low=1)
    return of_name(pod, NAME, name, size, remakes=remade(pod, find, size))
