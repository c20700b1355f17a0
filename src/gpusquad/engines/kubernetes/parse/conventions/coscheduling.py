"""PodGroups of the coscheduling plugin, and its two earlier forms.

- label ``scheduling.x-k8s.io/pod-group``: a PodGroup of scheduling.x-k8s.io, ``spec.minMember``;
- label ``pod-group.scheduling.sigs.k8s.io``: a PodGroup of scheduling.sigs.k8s.io (0.19 to 0.24), or of its successor;
- labels ``pod-group.scheduling.sigs.k8s.io/name`` and ``/min-available`` (0.18): no object.
Source: kubernetes-sigs/scheduler-plugins, apis/scheduling/v1alpha1 and its changelog.
"""

from __future__ import annotations

from gpusquad.engines.kubernetes.parse.conventions.owners import is_recreated_by_owner
from gpusquad.engines.kubernetes.parse.groups import Membership, of_name, of_object
from gpusquad.engines.kubernetes.parse.lookups import Find, look
from gpusquad.kube.annotations import count, text_of
from gpusquad.kube.objects import Object, labels_of, namespace_of

GROUP = "scheduling.x-k8s.io"
LABEL = "scheduling.x-k8s.io/pod-group"
OLD_GROUP = "scheduling.sigs.k8s.io"
OLD_LABEL = "pod-group.scheduling.sigs.k8s.io"
OLDEST_NAME = OLD_LABEL + "/name"
OLDEST_SIZE = OLD_LABEL + "/min-available"


def coscheduling(pod: Object, find: Find) -> Membership | None:
    labels = labels_of(pod)
    if name := text_of(labels, LABEL):
        return _of_object(pod, look(find, GROUP, "PodGroup", namespace_of(pod), name), find)
    if name := text_of(labels, OLD_LABEL):
        old = find(OLD_GROUP, "PodGroup", namespace_of(pod), name)
        group = GROUP if old is None else OLD_GROUP
        return _of_object(pod, look(find, group, "PodGroup", namespace_of(pod), name), find)
    if name := text_of(labels, OLDEST_NAME):
        least = count(labels.get(OLDEST_SIZE), f"metadata.labels[{OLDEST_SIZE}]", low=1)
        return of_name(pod, OLDEST_NAME, name, least, recreates=is_recreated_by_owner(pod, find, least))
    return None


def _of_object(pod: Object, group: Object, find: Find) -> Membership:
    least = count((group.get("spec") or {}).get("minMember"), "PodGroup: spec.minMember", default=1, low=0) or 1
    return of_object(pod, group, kind="PodGroup", least=least, recreates=is_recreated_by_owner(pod, find, least))
