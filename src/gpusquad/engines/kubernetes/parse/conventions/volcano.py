"""Volcano's PodGroups: annotation ``scheduling.k8s.io/group-name``, or ``scheduling.volcano.sh/group-name``.

``spec.minMember`` is the size of the gang. ``spec.minTaskMember``, if it sums up to the same number, gives the size by
task. Pods of a Volcano Job carry the annotation too, and their task in ``volcano.sh/task-spec``.
Source: volcano-sh/apis, scheduling/v1beta1 (labels.go, types.go).
"""

from __future__ import annotations

from gpusquad.engines.kubernetes.parse.conventions.owners import is_recreated_by_owner
from gpusquad.engines.kubernetes.parse.groups import Membership, RoleSize, of_object
from gpusquad.engines.kubernetes.parse.lookups import Find, look
from gpusquad.kube.annotations import count, either
from gpusquad.kube.errors import UnsupportedField
from gpusquad.kube.objects import Object, namespace_of

GROUP = "scheduling.volcano.sh"
NAMES = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")


def volcano(pod: Object, find: Find) -> Membership | None:
    name = next(filter(None, (either(pod, name) for name in NAMES)), "")
    if not name:
        return None
    group = look(find, GROUP, "PodGroup", namespace_of(pod), name)
    spec = group.get("spec") or {}
    if (spec.get("networkTopology") or {}).get("mode") == "hard":
        raise UnsupportedField(
            f"PodGroup {name}: spec.networkTopology", "a hard topology is not supported", "make it soft"
        )
    least = count(spec.get("minMember"), f"PodGroup {name}: spec.minMember", default=1) or 1
    recreates = is_recreated_by_owner(pod, find, least)
    return of_object(pod, group, kind="PodGroup", least=least, recreates=recreates, parts=_parts(spec, least))


def _parts(spec: Object, least: int) -> tuple[RoleSize, ...]:
    tasks = spec.get("minTaskMember") or {}
    parts = tuple(RoleSize(task.lower(), count(tasks[task], "PodGroup: spec.minTaskMember")) for task in sorted(tasks))
    return parts if sum(part.count for part in parts) == least else ()
