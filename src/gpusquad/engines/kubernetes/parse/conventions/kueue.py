"""Kueue's groups of plain pods: label ``kueue.x-k8s.io/pod-group-name``, annotation ``…/pod-group-total-count``.

Kueue also marks pods of services this way (``pod-group-serving``, ``pod-group-fast-admission``). These do not wait for
each other, so their owner decides. Kueue holds pods back with a scheduling gate until it admits them.
Source: kubernetes-sigs/kueue, pkg/controller/jobs/pod/constants.
"""

from __future__ import annotations

from gpusquad.engines.kubernetes.parse.conventions.owners import is_recreated_by_owner
from gpusquad.engines.kubernetes.parse.groups import Membership, of_name
from gpusquad.engines.kubernetes.parse.lookups import Find
from gpusquad.kube.annotations import at, count, either, flag_of
from gpusquad.kube.objects import Object, annotations_of

NAME = "kueue.x-k8s.io/pod-group-name"
TOTAL = "kueue.x-k8s.io/pod-group-total-count"
_NOT_TOGETHER = ("kueue.x-k8s.io/pod-group-serving", "kueue.x-k8s.io/pod-group-fast-admission")


def kueue(pod: Object, find: Find) -> Membership | None:
    name = either(pod, NAME)
    annotations = annotations_of(pod)
    if not name or any(flag_of(annotations, mark) for mark in _NOT_TOGETHER):
        return None
    size = count(annotations.get(TOTAL), at(TOTAL), low=1)
    return of_name(pod, NAME, name, size, recreates=is_recreated_by_owner(pod, find, size))
