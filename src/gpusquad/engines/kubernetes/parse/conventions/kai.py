"""KAI's PodGroups (scheduling.run.ai): annotation ``pod-group-name``; ``spec.minMember``, or the sum of its sub-groups.

Source: NVIDIA/KAI-Scheduler, pkg/common/constants and pkg/apis/scheduling/v2alpha2.
"""

from __future__ import annotations

from gpusquad.engines.kubernetes.parse.conventions.owners import is_recreated_by_owner
from gpusquad.engines.kubernetes.parse.groups import Membership, of_object
from gpusquad.engines.kubernetes.parse.lookups import Find, look
from gpusquad.kube.annotations import count, text_of
from gpusquad.kube.errors import UnsupportedField
from gpusquad.kube.names import KAI_API_GROUP, KAI_POD_GROUP
from gpusquad.kube.objects import Object, annotations_of, namespace_of

_MAX_SUBGROUPS = 1000


def kai(pod: Object, find: Find) -> Membership | None:
    name = text_of(annotations_of(pod), KAI_POD_GROUP)
    if not name:
        return None
    group = look(find, KAI_API_GROUP, "PodGroup", namespace_of(pod), name)
    spec = group.get("spec") or {}
    if (spec.get("topologyConstraint") or {}).get("requiredTopologyLevel"):
        raise UnsupportedField(f"PodGroup {name}: spec.topologyConstraint", "a required topology is not supported")
    least = count(spec.get("minMember"), f"PodGroup {name}: spec.minMember", default=0) or _of_subgroups(spec) or 1
    return of_object(pod, group, kind="PodGroup", least=least, recreates=is_recreated_by_owner(pod, find, least))


def _of_subgroups(spec: Object) -> int:
    subgroups = (spec.get("subGroups") or [])[:_MAX_SUBGROUPS]
    return sum(count(each.get("minMember"), "PodGroup: spec.subGroups.minMember", default=0) for each in subgroups)
