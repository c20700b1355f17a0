"""Objects that a pod's group is parsed from. The caller fetches and caches them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from gpusquad.kube.errors import MalformedField, short
from gpusquad.kube.names import KAI_API_GROUP
from gpusquad.kube.objects import Object

_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)


class NotFetched(Enum):
    """Not fetched yet, which differs from missing."""

    UNKNOWN = "unknown"


UNKNOWN: Literal[NotFetched.UNKNOWN] = NotFetched.UNKNOWN
Find = Callable[[str, str, str, str], "Object | NotFetched | None"]
"""``find(group, kind, namespace, name)``: the object, None if there is none, UNKNOWN if it was not fetched yet."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A kind of object that ``Find`` may be called for. It is watched, and the role must allow that."""

    group: str
    kind: str
    plural: str
    versions: tuple[str, ...]
    """The preferred one first. A cluster may have any of them, or none."""


LOOKUPS = (
    Lookup("scheduling.k8s.io", "PodGroup", "podgroups", ("v1beta1", "v1alpha3", "v1alpha2")),
    Lookup("scheduling.x-k8s.io", "PodGroup", "podgroups", ("v1alpha1",)),
    Lookup("scheduling.sigs.k8s.io", "PodGroup", "podgroups", ("v1alpha1",)),
    Lookup("scheduling.volcano.sh", "PodGroup", "podgroups", ("v1beta1",)),
    Lookup(KAI_API_GROUP, "PodGroup", "podgroups", ("v2alpha2",)),
    Lookup("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets", ("v1",)),
    Lookup("batch", "Job", "jobs", ("v1",)),
    Lookup("jobset.x-k8s.io", "JobSet", "jobsets", ("v1alpha2",)),
    Lookup("kubeflow.org", "PyTorchJob", "pytorchjobs", ("v1",)),
    Lookup("kubeflow.org", "TFJob", "tfjobs", ("v1",)),
    Lookup("kubeflow.org", "XGBoostJob", "xgboostjobs", ("v1",)),
    Lookup("kubeflow.org", "PaddleJob", "paddlejobs", ("v1",)),
    Lookup("kubeflow.org", "JAXJob", "jaxjobs", ("v1",)),
    Lookup("kubeflow.org", "MPIJob", "mpijobs", ("v2beta1", "v1")),
    Lookup("ray.io", "RayCluster", "rayclusters", ("v1", "v1alpha1")),
)


class LookupPending(Exception):
    """An object that a pod's group depends on is not available. The caller tries again when it has changed."""

    def __init__(self, kind: str, namespace: str, name: str, reason: str) -> None:
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.reason = reason
        super().__init__(f"{kind} {namespace}/{name} {reason}")


def look(find: Find, group: str, kind: str, namespace: str, name: str) -> Object:
    """The object, or ``LookupPending``. Names come from labels and annotations and may be anything."""
    if _NAME.fullmatch(name) is None:
        raise MalformedField(kind, f"{short(name)} is not the name of an object")
    found = find(group, kind, namespace, name)
    if isinstance(found, NotFetched):
        raise LookupPending(kind, namespace, name, "is being looked up")
    if found is None:
        raise LookupPending(kind, namespace, name, f"of {group} does not exist")
    return found


def group_of(api_version: str) -> str:
    """``apps`` of ``apps/v1``; empty for ``v1``."""
    return api_version.rpartition("/")[0]
