"""Kubeflow training jobs: all replicas of all types are one gang.

``runPolicy.schedulingPolicy.minAvailable``, or ``elasticPolicy.minReplicas`` of a PyTorchJob, makes the gang smaller.
The remaining pods are jobs of their own. An MPIJob that creates its launcher after its workers are ready is a gang of
workers. If a replica that is not restarted is deleted, its job fails, so such jobs are not preempted. Source:
kubeflow/training-operator, pkg/apis/kubeflow.org/v1; kubeflow/mpi-operator, pkg/apis/kubeflow/v2beta1.
"""

from __future__ import annotations

from gpusquad.engines.kubernetes.parse.groups import Membership, RoleSize, first_pods, of_object
from gpusquad.engines.kubernetes.parse.roles import WORKER, rank_of, role_of
from gpusquad.kube.annotations import count
from gpusquad.kube.objects import Object, name_of

LAUNCHER = "launcher"
KINDS = {
    "PyTorchJob": ("pytorchReplicaSpecs", "OnFailure"),
    "TFJob": ("tfReplicaSpecs", "Never"),
    "XGBoostJob": ("xgbReplicaSpecs", "Never"),
    "PaddleJob": ("paddleReplicaSpecs", "OnFailure"),
    "JAXJob": ("jaxReplicaSpecs", "OnFailure"),
    "MPIJob": ("mpiReplicaSpecs", "Never"),
}
"""By kind: the field of the spec with the replicas, and their default restart policy."""


def gang(kind: str, pod: Object, job: Object) -> Membership | None:
    parts = _parts(kind, job)
    if _launcher_comes_later(job):
        parts = tuple(part for part in parts if part.role != LAUNCHER)
        if role_of(pod) == LAUNCHER:
            return None
    size = max(1, sum(part.count for part in parts))
    least = _least(kind, job, parts, size)
    return of_object(
        pod,
        job,
        kind=kind,
        least=least,
        size=size,
        recreates=recreates(kind, job, least),
        parts=first_pods(parts, least),
    )


def recreates(kind: str, job: Object, together: int) -> bool:
    """Whether the restart policies allow it. ``together``, the number of deleted pods, makes no difference."""
    field, default = KINDS[kind]
    return all((replicas.get("restartPolicy") or default) != "Never" for replicas in _replicas(field, job).values())


def _replicas(field: str, job: Object) -> dict[str, Object]:
    return (job.get("spec") or {}).get(field) or {}


def _parts(kind: str, job: Object) -> tuple[RoleSize, ...]:
    """Unfinished replicas of each type. Types that others connect to come first."""
    statuses = (job.get("status") or {}).get("replicaStatuses") or {}
    parts: list[RoleSize] = []
    for role, replicas in _replicas(KINDS[kind][0], job).items():
        wanted = count(replicas.get("replicas"), f"{kind} {name_of(job)}: {role}.replicas", default=1)
        parts.append(RoleSize(role.lower(), max(0, wanted - ((statuses.get(role) or {}).get("succeeded") or 0))))
    return tuple(sorted(parts, key=lambda part: (rank_of(part.role), part.role == WORKER, part.role)))


def _least(kind: str, job: Object, parts: tuple[RoleSize, ...], size: int) -> int:
    """Number of pods that must start together. ``size``: all pods of ``parts``."""
    spec = job.get("spec") or {}
    policy = (spec.get("runPolicy") or {}).get("schedulingPolicy") or {}
    if policy.get("minAvailable") is not None:
        return min(size, count(policy["minAvailable"], f"{kind}: minAvailable", low=1))
    elastic = spec.get("elasticPolicy") or {}
    if elastic.get("minReplicas") is not None:
        workers = sum(part.count for part in parts if part.role == WORKER)
        fewer = workers - count(elastic["minReplicas"], f"{kind}: elasticPolicy.minReplicas")
        return max(1, size - max(0, fewer))
    return size


def _launcher_comes_later(job: Object) -> bool:
    return (job.get("spec") or {}).get("launcherCreationPolicy") == "WaitForWorkersReady"
