"""Groups by owner: the topmost owner with a rule decides.

A pod of a Deployment, a StatefulSet, a Knative or KServe service is a job of its own, because services start and scale
one pod at a time, also from zero. So is a pod of an unknown owner. It is not known whether such an owner recreates
deleted pods. Its pods are therefore preempted only if the user marks them as preemptible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gpusquad.engines.kubernetes.parse.conventions import batch_job, jobset, kubeflow, ray
from gpusquad.engines.kubernetes.parse.groups import Membership, alone, gpusquad_annotations
from gpusquad.engines.kubernetes.parse.lookups import Find, LookupPending, group_of, look
from gpusquad.kube.annotations import flag_of
from gpusquad.kube.names import GANG
from gpusquad.kube.objects import Object, annotations_of, controller_of, namespace_of, uid_of


@dataclass(frozen=True, slots=True)
class OwnerRule:
    """How one kind of owner is parsed."""

    gang: Callable[[Object, Object], Membership | None]
    """Called with a pod and its owner. None: each of the owner's pods is a job of its own."""
    recreates: Callable[[Object, int], bool]
    """Whether the owner survives the loss of that many pods at once, and recreates them."""


_RULES: dict[tuple[str, str], OwnerRule] = {
    ("batch", "Job"): OwnerRule(batch_job.gang, batch_job.recreates),
    ("jobset.x-k8s.io", "JobSet"): OwnerRule(jobset.gang, jobset.recreates),
    ("ray.io", "RayCluster"): OwnerRule(ray.gang, ray.recreates),
    **{
        ("kubeflow.org", kind): OwnerRule(partial(kubeflow.gang, kind), partial(kubeflow.recreates, kind))
        for kind in kubeflow.KINDS
    },
}
_ALWAYS_RECREATE = {
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("", "ReplicationController"),
    ("batch.volcano.sh", "Job"),
}
"""Controllers that recreate any number of deleted pods."""
_MAX_LEVELS = 8
"""Levels of owners that are looked up. It ends the search if owners refer to each other."""


def owned(pod: Object, find: Find) -> Membership | None:
    """The pod's group by its topmost owner with a rule. None: it has no such owner."""
    found = _topmost(pod, find)
    if found is None:
        return None
    rule, owner = found
    membership = None if flag_of(annotations_of(owner), GANG) is False else rule.gang(pod, owner)
    return membership or alone(pod, recreates=rule.recreates(owner, 1), annotations=gpusquad_annotations(owner))


def is_recreated_by_owner(pod: Object, find: Find, together: int) -> bool:
    """Whether this pod is recreated if ``together`` pods of its group are deleted at once."""
    controller = controller_of(pod)
    if controller is None:
        return False
    if _kind(controller) in _ALWAYS_RECREATE:
        return True
    found = _topmost(pod, find)
    return found is not None and found[0].recreates(found[1], together)


def _topmost(pod: Object, find: Find) -> tuple[OwnerRule, Object] | None:
    """Follows the chain of controllers up to the first one without a rule."""
    result = None
    item = pod
    for _ in range(_MAX_LEVELS):
        reference = controller_of(item)
        rule = _RULES.get(_kind(reference)) if reference is not None else None
        if reference is None or rule is None:
            break
        item = _owner(reference, namespace_of(pod), find)
        result = rule, item
    return result


def _owner(reference: Object, namespace: str, find: Find) -> Object:
    """The owner that the reference names. Raises LookupPending if another object has its name: the UIDs differ."""
    group, kind = _kind(reference)
    owner = look(find, group, kind, namespace, reference["name"])
    if uid_of(owner) != reference.get("uid"):
        raise LookupPending(kind, namespace, reference["name"], "is not the one that created the pod")
    return owner


def _kind(reference: Object) -> tuple[str, str]:
    return group_of(reference.get("apiVersion", "")), reference.get("kind", "")
