"""JobSet: all pods of all its jobs are one gang. The replicated jobs are its roles.

If a job waits for another (``startupPolicy`` InOrder, ``dependsOn``), its pods do not exist before the other's pods
run. Then every replicated job is a gang of its own. Source: kubernetes-sigs/jobset, api/jobset/v1alpha2.
"""

from __future__ import annotations

from gpusquad.engines.kubernetes.parse.conventions.batch_job import survives
from gpusquad.engines.kubernetes.parse.groups import Membership, RoleSize, of_object
from gpusquad.engines.kubernetes.parse.roles import role_of
from gpusquad.kube.annotations import count
from gpusquad.kube.objects import Object, name_of

KIND = "JobSet"


def gang(pod: Object, jobset: Object) -> Membership:
    parts = tuple(RoleSize(each["name"].lower(), _pods_left(each, jobset)) for each in _jobs(jobset))
    within = ""
    if _has_order(jobset):
        within = role_of(pod)
        parts = tuple(part for part in parts if part.role == within)
    least = max(1, sum(part.count for part in parts))
    return of_object(
        pod, jobset, kind=KIND, least=least, recreates=recreates(jobset, least), parts=parts, within=within
    )


def recreates(jobset: Object, together: int) -> bool:
    """By its own restarts, or because none of its jobs counts the loss of its pods as a failure."""
    spec, status = jobset.get("spec") or {}, jobset.get("status") or {}
    if ((spec.get("failurePolicy") or {}).get("maxRestarts") or 0) > (status.get("restarts") or 0):
        return True
    return all(survives(_template(each), {}, min(together, _pods(each))) for each in _jobs(jobset))


def _jobs(jobset: Object) -> list[Object]:
    return (jobset.get("spec") or {}).get("replicatedJobs") or []


def _template(replicated: Object) -> Object:
    return (replicated.get("template") or {}).get("spec") or {}


def _pods(replicated: Object) -> int:
    """Concurrent pods of one of its jobs."""
    spec = _template(replicated)
    parallelism = count(spec.get("parallelism"), f"{KIND}: parallelism", default=1)
    return min(parallelism, count(spec.get("completions"), f"{KIND}: completions", default=parallelism))


def _pods_left(replicated: Object, jobset: Object) -> int:
    """Without finished jobs, whose pods are not recreated."""
    replicas = count(replicated.get("replicas"), f"{KIND} {name_of(jobset)}: replicas", default=1)
    statuses = (jobset.get("status") or {}).get("replicatedJobsStatus") or ()
    done = sum(each.get("succeeded") or 0 for each in statuses if each.get("name") == replicated["name"])
    return max(0, replicas - done) * _pods(replicated)


def _has_order(jobset: Object) -> bool:
    spec = jobset.get("spec") or {}
    in_order = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    return in_order or any(each.get("dependsOn") for each in _jobs(jobset))
