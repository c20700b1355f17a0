"""Kubernetes' own groups (1.36 and later): ``spec.schedulingGroup.podGroupName`` names a PodGroup of scheduling.k8s.io.

Fields as in k8s.io/api v0.37.1, scheduling/v1beta1.
"""

from __future__ import annotations

from gpusquad.engines.kubernetes.parse.conventions.owners import is_recreated_by_owner
from gpusquad.engines.kubernetes.parse.groups import Membership, alone, gpusquad_annotations, of_object
from gpusquad.engines.kubernetes.parse.lookups import Find, look
from gpusquad.kube.annotations import count
from gpusquad.kube.errors import UnsupportedField
from gpusquad.kube.objects import Object, namespace_of

GROUP = "scheduling.k8s.io"
_REFUSED = {
    "schedulingConstraints": "a topology for the whole group is not supported",
    "resourceClaims": "resource claims (DRA) are not supported",
    "parentCompositePodGroupName": "groups of groups are not supported",
}


def native(pod: Object, find: Find) -> Membership | None:
    name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    if not name:
        return None
    group = look(find, GROUP, "PodGroup", namespace_of(pod), name)
    spec = group.get("spec") or {}
    for field, problem in _REFUSED.items():
        if spec.get(field):
            raise UnsupportedField(f"PodGroup {name}: spec.{field}", problem, "leave it out")
    gang = (spec.get("schedulingPolicy") or {}).get("gang")
    if gang is None:
        return alone(pod, recreates=is_recreated_by_owner(pod, find, 1), annotations=gpusquad_annotations(group))
    least = count(gang.get("minCount"), f"PodGroup {name}: spec.schedulingPolicy.gang.minCount", low=1)
    recreates = is_recreated_by_owner(pod, find, least)
    return of_object(pod, group, kind="PodGroup", least=least, recreates=recreates, priority=spec.get("priority"))
