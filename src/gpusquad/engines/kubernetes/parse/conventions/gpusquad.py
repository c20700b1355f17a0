"""gpusquad's own groups: ``gpusquad.io/group`` and ``gpusquad.io/group-size``."""

from __future__ import annotations

from gpusquad.engines.kubernetes.parse.conventions.owners import is_recreated_by_owner
from gpusquad.engines.kubernetes.parse.groups import Membership, of_name
from gpusquad.engines.kubernetes.parse.lookups import Find
from gpusquad.kube.annotations import at, count, either
from gpusquad.kube.names import GROUP, GROUP_SIZE
from gpusquad.kube.objects import Object


def own_group(pod: Object, find: Find) -> Membership | None:
    name = either(pod, GROUP)
    if not name:
        return None
    size = count(either(pod, GROUP_SIZE) or None, at(GROUP_SIZE), low=1)
    return of_name(pod, GROUP, name, size, recreates=is_recreated_by_owner(pod, find, size))
