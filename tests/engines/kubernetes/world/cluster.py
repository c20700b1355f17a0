"""The pods and Jobs of a simulated cluster, with its users, Job controller and kubelets."""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import dataclass, field

from gpusquad.engines.kubernetes.gangs.pod_gang import is_over, node_name, phase_of
from gpusquad.kube.names import ATTEMPT, JOB
from gpusquad.kube.objects import Object, annotations_of, controller_of, is_leaving, name_of, uid_of
from tests.engines.kubernetes.parse import builders


@dataclass
class Cluster:
    """``pods`` and ``jobs`` are the actual state; ``events`` are not delivered to the watcher yet."""

    pods: dict[str, Object] = field(default_factory=dict)
    jobs: dict[str, Object] = field(default_factory=dict)
    events: deque[tuple[str, Object]] = field(default_factory=deque)
    created: int = 0
    ran: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    """The pods that ran, by job and attempt."""

    # -- users and controllers ---------------------------------------------------------------------------------------

    def make(self, name: str, *, owner: Object | None = None, gpus: int = 1, **annotations: str) -> Object:
        self.created += 1
        annotations = {f"gpusquad.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
        pod = builders.pod(name, builders.container(gpus=gpus), annotations=annotations, owner=owner)
        pod["metadata"]["uid"] = f"uid-{self.created}"
        self.pods[name] = pod
        self._emit("seen", pod)
        return pod

    def make_bare(self, group: str, size: int, number: int) -> None:
        name = f"{group}-{number}"
        if name not in self.pods:
            self.make(name, group=group, group_size=str(size))

    def make_job(self, name: str, size: int) -> None:
        if name in self.jobs:
            return
        self.created += 1
        rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        self.jobs[name] = {
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "namespace": "team", "uid": f"job-{self.created}"},
            "spec": {"completions": size, "parallelism": size, "completionMode": "Indexed",
                     "podFailurePolicy": {"rules": rules}, "backoffLimit": 3},
            "status": {},
        }  # fmt: skip

    def control(self, name: str) -> None:
        """One step of the Job controller: count ended pods, create missing ones, finish the Job."""
        job = self.jobs.get(name)
        if job is None or _is_finished(job):
            return
        size = job["spec"]["completions"]
        own_pods = [pod for pod in self.pods.values() if _is_owned_by(pod, job)]
        counted = job["status"].setdefault("counted", {})
        for pod in own_pods:
            if is_over(pod):
                counted[uid_of(pod)] = (phase_of(pod), pod["metadata"]["labels"]["index"])
        done = {index for phase, index in counted.values() if phase == "Succeeded"}
        failed = sum(phase == "Failed" for phase, _ in counted.values())
        before = dict(job["status"])
        job["status"].update(succeeded=len(done), failed=failed)
        if len(done) == size or failed > job["spec"]["backoffLimit"]:
            kind = "Complete" if len(done) == size else "Failed"
            job["status"]["conditions"] = [{"type": kind, "status": "True"}]
            for pod in own_pods:
                if not is_over(pod):
                    self._start_deletion(pod)
        else:
            busy = {pod["metadata"]["labels"]["index"] for pod in own_pods if not is_over(pod) and not is_leaving(pod)}
            for index in map(str, range(size)):
                if index not in busy and index not in done:
                    self._make_index(job, index)
        if before != job["status"]:
            self._emit_again(job)

    def _make_index(self, job: Object, index: str) -> None:
        name = f"{job['metadata']['name']}-{index}"
        while name in self.pods:
            name += "x"
        self.created += 1
        pod = builders.pod(name, owner=job, labels={"index": index})
        pod["metadata"]["uid"] = f"uid-{self.created}"
        self.pods[name] = pod
        self._emit("seen", pod)

    def delete_job(self, name: str) -> None:
        job = self.jobs.pop(name, None)
        if job is not None:
            self._emit_again(job)
            for pod in [pod for pod in self.pods.values() if _is_owned_by(pod, job)]:
                self._start_deletion(pod)

    def _emit_again(self, job: Object) -> None:
        for pod in self.pods.values():
            if _is_owned_by(pod, job):
                self.events.append(("again", pod))

    # -- the server and the kubelets -----------------------------------------------------------------------------------

    def _emit(self, kind: str, pod: Object) -> None:
        self.events.append((kind, copy.deepcopy(pod)))

    def delete_pod(self, name: str) -> None:
        if name in self.pods:
            self._start_deletion(self.pods[name])

    def _start_deletion(self, pod: Object) -> None:
        if not node_name(pod) or is_over(pod):
            self._remove(pod)
        elif not is_leaving(pod):
            pod["metadata"]["deletionTimestamp"] = "2026-03-01T11:00:00Z"
            self._emit("seen", pod)

    def _remove(self, pod: Object) -> None:
        del self.pods[name_of(pod)]
        self._emit("gone", pod)

    def run_pod(self, name: str, phase: str) -> None:
        """A kubelet moves a pod to ``phase`` or removes it."""
        pod = self.pods.get(name)
        if pod is None or not node_name(pod) or is_over(pod):
            return
        if is_leaving(pod) and phase == "gone":
            self._remove(pod)
        elif phase in ("Running", "Succeeded", "Failed") and phase != phase_of(pod):
            pod["status"]["phase"] = phase
            annotations = annotations_of(pod)
            if phase != "Failed" and JOB in annotations:
                self.ran.setdefault((annotations[JOB], int(annotations[ATTEMPT])), set()).add(uid_of(pod))
            self._emit("seen", pod)
            if is_leaving(pod) and is_over(pod):
                self._remove(pod)

    def relabel(self, name: str, group: str) -> None:
        """A user edits the group annotation of a pod."""
        pod = self.pods.get(name)
        if pod is not None and "gpusquad.io/group" in annotations_of(pod):
            pod["metadata"]["annotations"]["gpusquad.io/group"] = group
            self._emit("seen", pod)


def _is_owned_by(pod: Object, job: Object) -> bool:
    reference = controller_of(pod)
    return reference is not None and reference["uid"] == job["metadata"]["uid"]


def _is_finished(job: Object) -> bool:
    return bool(job["status"].get("conditions"))
