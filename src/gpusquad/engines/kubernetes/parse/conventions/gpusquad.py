"""Our own names, for pods that nothing else groups: ``gpusquad.io/group`` and ``gpusquad.io/group-size``."""

from __future__ import annotations

from gpusquad.engines.kubernetes.parse.conventions.owners import remade
from gpusquad.engines.kubernetes.parse.groups import Membership, of_name
from gpusquad.engines.kubernetes.parse.lookups import Find
from gpusquad.kube.annotations import at, count, either
from gpusquad.kube.names import GROUP, GROUP_SIZE
from gpusquad.kube.objects import Object


def ours(pod: Object, find: Find) -> Membership | None:
    name = either(pod, GROUP)
    if not name:
        return None
    size = count(either(pod, GROUP_SIZE) or None, at(GROUP_SIZE), low=1)
    return of_name(pod, GROUP, name, size, remakes=remade(pod, find, size))
