"""Kubernetes objects of a job: an Indexed Job for each role, a headless Service for the host names of its pods, and a
Secret.

The Jobs are equal owners of the Service and the Secret, which are deleted with the last of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpusquad.core.job_objects import JobObjectRequest, TaskProgram
from gpusquad.engines.frameworks import HOSTFILE, MACHINEFILE, Gang
from gpusquad.engines.kubernetes.create.annotations import job_annotations
from gpusquad.engines.kubernetes.create.environment import HOST_FILES, RoleRanks, command_of, gang_of, variables
from gpusquad.engines.kubernetes.create.names import group_name, job_names
from gpusquad.engines.kubernetes.parse.groups import GroupKey
from gpusquad.engines.kubernetes.parse.ids import job_id
from gpusquad.kube.names import (
    FIRST_RANK,
    GPU,
    GPU_MEMORY,
    GPU_MEMORY_PERCENT,
    GPU_MIN_MEMORY,
    GPU_SM_PERCENT,
    GROUP,
    GROUP_SIZE,
    HAMI_USE_CARD,
    HAMI_USE_MODEL,
    HOST_FILE,
    ISOLATION,
    MACHINE_FILE,
    ROLE,
    SCHEDULER,
    SUBMISSION,
)
from gpusquad.kube.objects import Object, name_of, uid_of
from gpusquad.model.errors import Invalid
from gpusquad.model.job import SLOT_MEMORY_BYTES, Request, Share

CONTAINER = "main"
_MAX_ROLE_TEXT = 63


@dataclass(frozen=True)
class ManifestSettings:
    """How job objects are created."""

    scheduler: str = SCHEDULER
    image: str = ""
    """For jobs without an image."""
    namespaces: dict[str, str] = field(default_factory=dict)
    """By tenant, for tenants whose namespace has another name."""
    keep_s: float = 7 * 86_400.0
    """Finished Jobs are deleted after this time, with their pods and logs."""
    dry_run: bool = False
    """Nothing is written to the cluster, so no job can be submitted."""


@dataclass(frozen=True)
class JobManifests:
    """All objects of one job. ``beside`` are owned by its Jobs."""

    job_id: str
    namespace: str
    mark: str
    jobs: tuple[Object, ...]
    beside: tuple[Object, ...]


def plan_of(wanted: JobObjectRequest, settings: ManifestSettings) -> JobManifests:
    """Raises ``Invalid`` for jobs that cannot run on a cluster."""
    _check(wanted, settings)
    job = wanted.job
    namespace = namespace_for(job.tenant, settings)
    group = group_name(job.name, wanted.mark)
    all_ranks = ranks_of(wanted, group)
    resulting_id = id_of(namespace, group)
    own = _ManifestBuilder(wanted, settings, namespace, group, resulting_id, gang_of(all_ranks, group))
    programs = zip(all_ranks, job.roles, wanted.programs, strict=True)
    beside = [*([own.service()] if job.tasks > 1 else ()), *([own.secret()] if wanted.secrets else ())]
    return JobManifests(
        resulting_id, namespace, wanted.mark, tuple(own.job(s, r.request, p) for s, r, p in programs), tuple(beside)
    )


def namespace_for(tenant: str, settings: ManifestSettings) -> str:
    return settings.namespaces.get(tenant, tenant)


def id_of(namespace: str, group: str) -> str:
    """The job id of a group of that name: see ``conventions.gpusquad``."""
    return job_id(GroupKey(GROUP, namespace, group, f"{GROUP}:{namespace}/{group}"))


def ranks_of(wanted: JobObjectRequest, group: str) -> list[RoleRanks]:
    roles, first, all_ranks = wanted.job.roles, 0, []
    for role, name in zip(roles, job_names(group, [role.name for role in roles]), strict=True):
        all_ranks.append(RoleRanks(role.name, name, first, role.count, role.request.cards))
        first += role.count
    return all_ranks


def owned_by(item: Object, jobs: Sequence[Object]) -> Object:
    """The same object, deleted with the last of these Jobs."""
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": name_of(job), "uid": uid_of(job)} for job in jobs]
    return {**item, "metadata": {**item["metadata"], "ownerReferences": owners}}


def _check(wanted: JobObjectRequest, settings: ManifestSettings) -> None:
    if settings.dry_run:
        raise Invalid("kubernetes.dry_run", "is set: nothing is written to the cluster", "use kubectl")
    if not (wanted.image or settings.image):
        cure = "add image to the job file; an administrator may set one for all as kubernetes.image"
        raise Invalid("image", "is missing; every job on a cluster needs one", cure)
    if wanted.job.is_elastic:
        raise Invalid("min", "elastic jobs are not supported on Kubernetes", "replace min and max by count")
    for role in wanted.job.roles:
        if any("," in model for model in role.request.gpu_models):
            raise Invalid("gpu_model", "contains a comma, which separates models on a cluster", "remove the comma")


@dataclass(frozen=True)
class _ManifestBuilder:
    """What all objects of one job have in common."""

    wanted: JobObjectRequest
    settings: ManifestSettings
    namespace: str
    group: str
    resulting_id: str
    gang: Gang | None

    def job(self, ranks: RoleRanks, request: Request, program: TaskProgram) -> Object:
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": self._metadata(ranks.job),
            "spec": {
                "completionMode": "Indexed",
                "parallelism": ranks.count,
                "completions": ranks.count,
                # Each attempt of the gang may lose all its pods.
                "backoffLimit": self.wanted.retries * ranks.count,
                "podFailurePolicy": {"rules": [_FORGIVE_DISRUPTION]},
                "ttlSecondsAfterFinished": round(self.settings.keep_s),
                "template": {"metadata": self._of_pod(ranks, request), "spec": self._pod(ranks, request, program)},
            },
        }

    def service(self) -> Object:
        """Headless: gives each pod a host name that the others know before it runs."""
        spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {GROUP: self.group}}
        return {"apiVersion": "v1", "kind": "Service", "metadata": self._metadata(self.group), "spec": spec}

    def secret(self) -> Object:
        return {"apiVersion": "v1", "kind": "Secret", "metadata": self._metadata(self.group), "type": "Opaque",
                "stringData": dict(self.wanted.secrets)}  # fmt: skip

    def _metadata(self, name: str) -> Object:
        annotations = {**job_annotations(self.wanted.job), SUBMISSION: self.wanted.mark}
        return {"name": name, "namespace": self.namespace, "labels": {GROUP: self.group}, "annotations": annotations}

    def _of_pod(self, ranks: RoleRanks, request: Request) -> Object:
        annotations = {
            **job_annotations(self.wanted.job),
            GROUP: self.group,
            GROUP_SIZE: str(self.wanted.job.tasks),
            ROLE: ranks.role[:_MAX_ROLE_TEXT],
            FIRST_RANK: str(ranks.first),
            **({HAMI_USE_MODEL: ",".join(request.gpu_models)} if request.gpu_models else {}),
            **({HAMI_USE_CARD: request.card} if request.card else {}),
            **({GPU_MIN_MEMORY: str(request.min_card_memory_bytes)} if request.min_card_memory_bytes else {}),
            **({ISOLATION: "isolated"} if request.share and request.share.isolation == "isolated" else {}),
            **{_HOST_FILE_ANNOTATIONS[name]: text for name, text in self._host_files.items()},
        }
        return {"labels": {GROUP: self.group}, "annotations": annotations}

    def _pod(self, ranks: RoleRanks, request: Request, program: TaskProgram) -> Object:
        wanted = self.wanted
        container: Object = {
            "name": CONTAINER,
            "image": wanted.image or self.settings.image,
            "command": command_of(ranks, self.gang, program.command, {*program.env, *wanted.secrets}),
            "env": variables(wanted, self.resulting_id, ranks, self.gang, program.env, self.group),
            "resources": resources_of(request),
            **({"volumeMounts": [_HOST_FILES_MOUNT]} if self._host_files else {}),
            **({"workingDir": wanted.workdir} if wanted.workdir else {}),
        }
        return {
            "schedulerName": self.settings.scheduler,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": round(wanted.grace_s),
            "enableServiceLinks": False,
            **({"subdomain": self.group} if wanted.job.tasks > 1 else {}),
            "containers": [container],
            **({"volumes": [_HOST_FILES_VOLUME]} if self._host_files else {}),
        }

    @property
    def _host_files(self) -> Mapping[str, str]:
        return self.gang.files if self.gang is not None else {}


_HOST_FILE_ANNOTATIONS = {HOSTFILE: HOST_FILE, MACHINEFILE: MACHINE_FILE}
_HOST_FILES_NAME = "gpusquad-hosts"
_HOST_FILES_MOUNT: Object = {"name": _HOST_FILES_NAME, "mountPath": HOST_FILES, "readOnly": True}
_HOST_FILES_VOLUME: Object = {
    "name": _HOST_FILES_NAME,
    "downwardAPI": {
        "items": [
            {"path": path, "fieldRef": {"fieldPath": f"metadata.annotations['{name}']"}}
            for path, name in _HOST_FILE_ANNOTATIONS.items()
        ]
    },
}
"""From annotations of the pod, so that no object beside it is needed."""

_FORGIVE_DISRUPTION: Object = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}
"""Preempted pods do not count as failures of the Job."""


def resources_of(request: Request) -> Object:
    """Requests equal to limits: a task gets exactly what it requested."""
    amounts: dict[str, str] = {}
    if request.cpu_milli:
        amounts["cpu"] = f"{request.cpu_milli}m"
    if request.memory_bytes:
        amounts["memory"] = str(request.memory_bytes)
    if request.cards:
        amounts[GPU] = str(request.cards)
    if request.share is not None:
        amounts |= _amounts_of(request.share)
    return {"requests": amounts, "limits": dict(amounts)} if amounts else {}


def _amounts_of(share: Share) -> dict[str, str]:
    # A device slot without a quota has no resource here: it becomes what is counted for it.
    memory_bytes = SLOT_MEMORY_BYTES if share.is_slot_only else share.memory_bytes
    amounts = {
        GPU_MEMORY: memory_bytes,
        GPU_MEMORY_PERCENT: _whole_percents(share.named_memory_milli),
        GPU_SM_PERCENT: _whole_percents(share.sm_milli),
    }
    return {name: str(amount) for name, amount in amounts.items() if amount}


def _whole_percents(milli: int) -> int:
    """Rounded up."""
    return -(-milli // 10)
