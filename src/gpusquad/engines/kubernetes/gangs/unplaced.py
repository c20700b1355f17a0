"""Gangs without a placement. A gang is reported to the service when it is complete, and withdrawn when it no longer
is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from gpusquad.core.observed import GangFound, TaskLocation
from gpusquad.engines.kubernetes.gangs.operations import ClusterOperations
from gpusquad.engines.kubernetes.gangs.pod_gang import PodGang, node_name
from gpusquad.engines.kubernetes.gangs.recovery import incarnation_of, place_of
from gpusquad.engines.kubernetes.parse.gangs import CompleteGang, IncompleteGang, can_run, gang_of
from gpusquad.engines.kubernetes.parse.ids import job_id
from gpusquad.engines.kubernetes.parse.job_attributes import created_us
from gpusquad.engines.kubernetes.parse.requests import is_gated
from gpusquad.kube.names import JOB, SCHEDULER
from gpusquad.kube.objects import Object, annotations_of, is_leaving, labels_of, uid_of
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request

_PARTLY = "only some of its pods are on nodes, and they were not bound by a known decision: delete those pods"


class GangJobs(Protocol):
    """Keeps the gangs and their jobs."""

    def track_job(self, gang: PodGang) -> None: ...
    def drop_job(self, gang: PodGang, cause: str, how: str = "cancelled") -> PodGang: ...
    def split_off(self, gang: PodGang, pod: Object) -> None: ...


class UnplacedGangs:
    """Reviews a gang after each change that matters to it."""

    def __init__(
        self,
        operations: ClusterOperations,
        request_of: Callable[[Object], Request],
        check: Callable[[CompleteGang], Invalid | None],
        jobs: GangJobs,
        scheduler: str = SCHEDULER,
    ) -> None:
        self._operations = operations
        self._request_of = request_of
        self._check = check
        self._jobs = jobs
        self._scheduler = scheduler

    def review(self, gang: PodGang) -> None:
        found = self._current_state(gang)
        for pod in () if isinstance(found, Invalid) else found.surplus:
            self._jobs.split_off(gang, pod)
        if isinstance(found, CompleteGang) and _is_changed(gang, found.job):
            found = self._check(found) or found
        if isinstance(found, CompleteGang):
            gang.waits_for = ""
            self._completed(gang, found)
        elif isinstance(found, IncompleteGang):
            self._incomplete(gang, found)
        else:
            self._reject(gang, str(found))

    def _current_state(self, gang: PodGang) -> CompleteGang | IncompleteGang | Invalid:
        member = gang.member
        if member.size is None:
            return IncompleteGang(len(gang.usable), None, member.waits_for)
        if len(gang.usable) < member.least:
            # The usual case while pods appear one after the other. Parsing all of them each time would be a waste.
            key, missing = member.key, member.least - len(gang.usable)
            waits_for = f"{missing} of {member.least} pods of {key.kind} {key.namespace}/{key.name}"
            return IncompleteGang(len(gang.usable), member.least, waits_for)
        pods = [gang.pods[uid] for uid in gang.usable if not self._is_late(gang, gang.pods[uid])]
        return gang_of(
            member,
            pods,
            request_of=self._request_of,
            held=frozenset(gang.intended),
            incarnation=gang.incarnation,
            scheduler=self._scheduler,
        )

    def _is_late(self, gang: PodGang, pod: Object) -> bool:
        """The pod was bound for an ended job of this gang, because the answer to its binding came too late."""
        job = annotations_of(pod).get(JOB, "") if node_name(pod) else ""
        uid = uid_of(pod)
        if not job or not gang.incarnation or gang.single_pod or job == job_id(gang.member.key, gang.incarnation):
            return False
        incarnation = incarnation_of(gang.member.key, job)
        if incarnation is None or incarnation > gang.incarnation:
            return False
        self._delete(gang, pod, "its gang was released before it was bound", uid)
        return True

    def _delete(self, gang: PodGang, pod: Object, why: str, uid: str) -> None:
        if uid not in gang.deleted and not is_leaving(pod):
            gang.deleted.add(uid)
            self._operations.delete(pod, why, None)

    # -- complete ----------------------------------------------------------------------------------------------------

    def _completed(self, gang: PodGang, found: CompleteGang) -> None:
        bound = [pod for pod in found.members if node_name(pod)]
        if len(bound) == len(found.members):
            self._adopt(gang, found)
        elif bound:
            self._partly(gang, bound)
        else:
            self._report_found(gang, found)

    def _report_found(self, gang: PodGang, found: CompleteGang) -> None:
        job = found.job
        if gang.job is not None and _shape(gang.job) != _shape(job):
            gang = self._jobs.drop_job(gang, "its pods were replaced by different ones: it is another job")
            job = replace(job, id=job_id(gang.member.key, gang.incarnation))
        gang.intended = tuple(map(uid_of, found.members))
        gang.cluster_priority = found.cluster_priority
        if _is_changed(gang, job):
            # A gang whose pods are recreated keeps its submit time.
            gang.job = job if gang.job is None else job.submitted_at(gang.job.submitted_us)
            self._jobs.track_job(gang)
            self._operations.report(GangFound(gang.job))

    def _adopt(self, gang: PodGang, found: CompleteGang) -> None:
        """The gang is on its cards already. If its cards are not known, its usage counts as foreign."""
        requests = [role.request for role in found.job.roles for _ in range(role.count)]
        places = [place_of(pod) for pod in found.members]
        if any(len(place.cards) != request.cards for place, request in zip(places, requests, strict=True)):
            self._reject(gang, "its pods are on nodes, but their cards are not known")
            return
        gang.cluster_priority = found.cluster_priority
        gang.place(0, found.job, places)
        for rank, pod in zip(gang.ranks, found.members, strict=True):
            gang.put(rank, uid_of(pod))
        gang.empty_ended_ranks()
        gang.started = gang.adopted = True
        self.report_adopted(gang)

    def report_adopted(self, gang: PodGang) -> None:
        assert gang.job is not None
        places: list[TaskLocation] = [rank.place for rank in gang.ranks if rank.place is not None]
        self._jobs.track_job(gang)
        self._operations.recount_nodes({place.node for place in places})
        since_us = max(map(_started_us, (gang.pods[uid] for uid in gang.ranks_by_pod)))
        self._operations.report(GangFound(gang.job, tuple(places), since_us))

    def _partly(self, gang: PodGang, bound: Sequence[Object]) -> None:
        """Half of a gang is on nodes without a stored decision. A gang starts completely or not at all."""
        if not gang.member.recreates:
            self._reject(gang, _PARTLY)
            return
        for pod in bound:
            self._delete(gang, pod, "its gang was placed only in part and starts again as a whole", uid_of(pod))

    # -- not complete ------------------------------------------------------------------------------------------------

    def _incomplete(self, gang: PodGang, found: IncompleteGang) -> None:
        if gang.job is not None and not gang.is_recreated:
            cause = f"its pods were deleted; waiting for {found.waits_for}" if gang.usable else "its pods were deleted"
            gang = self._jobs.drop_job(gang, cause)
        elif gang.job is not None and not gang.live():
            self._operations.check_owner(gang)
        if gang.usable and found.waits_for != gang.waits_for:
            gang.waits_for = found.waits_for
            self._operations.report_unschedulable(gang, f"waiting for {found.waits_for}")

    def _reject(self, gang: PodGang, why: str) -> None:
        gang = self._jobs.drop_job(gang, f"it cannot be scheduled: {why}")
        if gang.waits_for != why:
            gang.waits_for = why
            self._operations.report_unschedulable(gang, why)


def is_usable(pod: Object) -> bool:
    """The pod can be counted for a gang."""
    return can_run(pod) and not is_gated(pod)


def is_status_alone(before: Object, now: Object) -> bool:
    """Nothing that a gang is parsed from has changed."""
    return (
        before["spec"] == now["spec"]
        and labels_of(before) == labels_of(now)
        and annotations_of(before) == annotations_of(now)
        and before["metadata"].get("ownerReferences") == now["metadata"].get("ownerReferences")
    )


def is_as_before(before: Object, now: Object) -> bool:
    """For two versions that differ only in status: neither phase nor deletion has changed."""
    return before.get("status", {}).get("phase") == now.get("status", {}).get("phase") and is_leaving(
        before
    ) == is_leaving(now)


def _is_changed(gang: PodGang, job: Job) -> bool:
    return gang.job is None or job.submitted_at(gang.job.submitted_us) != gang.job


def _shape(job: Job) -> list[Request]:
    """Requests of its tasks by rank, without placement rules."""
    return [replace(role.request, where="", most_per_node=0) for role in job.roles for _ in range(role.count)]


def _started_us(pod: Object) -> int:
    text = (pod.get("status") or {}).get("startTime")
    return created_us({"metadata": {"creationTimestamp": text}}) if text else created_us(pod)
