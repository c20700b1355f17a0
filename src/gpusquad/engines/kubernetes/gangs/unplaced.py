"""Gangs that have no places: when they are complete the service hears of them, and when they are not any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from gpusquad.core.observed import GangFound, TaskLocation
from gpusquad.engines.kubernetes.gangs.operations import ClusterOperations
from gpusquad.engines.kubernetes.gangs.pod_gang import PodGang, node_name
from gpusquad.engines.kubernetes.gangs.recovery import life_of, place_of
from gpusquad.engines.kubernetes.parse.gangs import CompleteGang, IncompleteGang, can_run, gang_of
from gpusquad.engines.kubernetes.parse.ids import job_id
from gpusquad.engines.kubernetes.parse.job_attributes import created_us
from gpusquad.engines.kubernetes.parse.requests import is_gated
from gpusquad.kube.names import JOB, SCHEDULER
from gpusquad.kube.objects import Object, annotations_of, is_leaving, labels_of, uid_of
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request

_PARTLY = "only some of its pods are on nodes, and nobody knows who put them there: delete those"


class GangJobs(Protocol):
    """Who keeps the list of gangs and their jobs."""

    def is_told(self, gang: PodGang) -> None: ...
    def drop_job(self, gang: PodGang, cause: str, how: str = "cancelled") -> PodGang: ...
    def make_alone(self, gang: PodGang, pod: Object) -> None: ...


class UnplacedGangs:
    """Looks at a gang whenever something changed that matters for it."""

    def __init__(
        self,
        hands: ClusterOperations,
        ask: Callable[[Object], Request],
        check: Callable[[CompleteGang], Invalid | None],
        jobs: GangJobs,
        scheduler: str = SCHEDULER,
    ) -> None:
        self._hands = hands
        self._ask = ask
        self._check = check
        self._jobs = jobs
        self._scheduler = scheduler

    def review(self, gang: PodGang) -> None:
        found = self._what_is_there(gang)
        for pod in () if isinstance(found, Invalid) else found.surplus:
            self._jobs.make_alone(gang, pod)
        if isinstance(found, CompleteGang) and _is_changed(gang, found.job):
            found = self._check(found) or found
        if isinstance(found, CompleteGang):
            gang.waits_for = ""
            self._formed(gang, found)
        elif isinstance(found, IncompleteGang):
            self._incomplete(gang, found)
        else:
            self._cannot_be(gang, str(found))

    def _what_is_there(self, gang: PodGang) -> CompleteGang | IncompleteGang | Invalid:
        member = gang.member
        if member.size is None:
            return IncompleteGang(len(gang.able), None, member.waits_for)
        if len(gang.able) < member.least:
            # Most often so while pods come one after the other: not worth looking at each of them again.
            key, missing = member.key, member.least - len(gang.able)
            waits_for = f"{missing} of {member.least} pods of {key.kind} {key.namespace}/{key.name}"
            return IncompleteGang(len(gang.able), member.least, waits_for)
        pods = [gang.pods[uid] for uid in gang.able if not self._is_late(gang, gang.pods[uid])]
        return gang_of(member, pods, ask=self._ask, held=frozenset(gang.meant), life=gang.life,
                       scheduler=self._scheduler)  # fmt: skip

    def _is_late(self, gang: PodGang, pod: Object) -> bool:
        """Bound for a job of this gang that is over: the answer to its binding was lost for too long."""
        job = annotations_of(pod).get(JOB, "") if node_name(pod) else ""
        uid = uid_of(pod)
        if not job or not gang.life or gang.alone_for or job == job_id(gang.member.key, gang.life):
            return False
        life = life_of(gang.member.key, job)
        if life is None or life > gang.life:
            return False
        self._delete(gang, pod, "its gang was released before it was bound", uid)
        return True

    def _delete(self, gang: PodGang, pod: Object, why: str, uid: str) -> None:
        if uid not in gang.deleted and not is_leaving(pod):
            gang.deleted.add(uid)
            self._hands.delete(pod, why, None)

    # -- complete ----------------------------------------------------------------------------------------------------

    def _formed(self, gang: PodGang, found: CompleteGang) -> None:
        bound = [pod for pod in found.members if node_name(pod)]
        if len(bound) == len(found.members):
            self._adopt(gang, found)
        elif bound:
            self._partly(gang, bound)
        else:
            self._tell(gang, found)

    def _tell(self, gang: PodGang, found: CompleteGang) -> None:
        job = found.job
        if gang.job is not None and _shape(gang.job) != _shape(job):
            gang = self._jobs.drop_job(gang, "other pods make it up now: it is another job")
            job = replace(job, id=job_id(gang.member.key, gang.life))
        gang.meant = tuple(map(uid_of, found.members))
        if _is_changed(gang, job):
            # Whose pods were made again does not lose its turn, nor win time.
            gang.job = job if gang.job is None else job.submitted_at(gang.job.submitted_us)
            self._jobs.is_told(gang)
            self._hands.report(GangFound(gang.job))

    def _adopt(self, gang: PodGang, found: CompleteGang) -> None:
        """It is on its cards already. Whose cards are not known is somebody else's, as far as the service goes."""
        requests = [role.request for role in found.job.roles for _ in range(role.count)]
        places = [place_of(pod) for pod in found.members]
        if any(len(place.cards) != request.cards for place, request in zip(places, requests, strict=True)):
            self._cannot_be(gang, "its pods are on nodes, and nobody has said which cards they have")
            return
        gang.place(0, found.job, places)
        for rank, pod in zip(gang.ranks, found.members, strict=True):
            gang.put(rank, uid_of(pod))
        gang.settle()
        gang.started = gang.adopted = True
        self.tell_adopted(gang)

    def tell_adopted(self, gang: PodGang) -> None:
        assert gang.job is not None
        places: list[TaskLocation] = [rank.place for rank in gang.ranks if rank.place is not None]
        self._jobs.is_told(gang)
        self._hands.look_again({place.node for place in places})
        since_us = max(map(_started_us, (gang.pods[uid] for uid in gang.seats)))
        self._hands.report(GangFound(gang.job, tuple(places), since_us))

    def _partly(self, gang: PodGang, bound: Sequence[Object]) -> None:
        """Half a gang that nobody remembers deciding: it starts whole or not at all."""
        if not gang.member.remakes:
            self._cannot_be(gang, _PARTLY)
            return
        for pod in bound:
            self._delete(gang, pod, "its gang was only partly placed and starts again whole", uid_of(pod))

    # -- not complete ------------------------------------------------------------------------------------------------

    def _incomplete(self, gang: PodGang, found: IncompleteGang) -> None:
        if gang.job is not None and not gang.comes_back:
            cause = f"its pods were deleted; it waits for {found.waits_for}" if gang.able else "its pods were deleted"
            gang = self._jobs.drop_job(gang, cause)
        elif gang.job is not None and not gang.live():
            self._hands.ask_owner(gang)
        if gang.able and found.waits_for != gang.waits_for:
            gang.waits_for = found.waits_for
            self._hands.lacks(gang, f"waits for {found.waits_for}")

    def _cannot_be(self, gang: PodGang, why: str) -> None:
        gang = self._jobs.drop_job(gang, f"it cannot be scheduled: {why}")
        if gang.waits_for != why:
            gang.waits_for = why
            self._hands.lacks(gang, why)


def is_able(pod: Object) -> bool:
    """Whether it can be counted for a gang."""
    return can_run(pod) and not is_gated(pod)


def is_status_alone(before: Object, now: Object) -> bool:
    """Nothing that a gang is read from is different."""
    return (
        before["spec"] == now["spec"]
        and labels_of(before) == labels_of(now)
        and annotations_of(before) == annotations_of(now)
        and before["metadata"].get("ownerReferences") == now["metadata"].get("ownerReferences")
    )


def is_as_before(before: Object, now: Object) -> bool:
    """Of two that differ by status alone: neither has begun, ended, or is being ended, where the other has not."""
    return before.get("status", {}).get("phase") == now.get("status", {}).get("phase") and is_leaving(
        before
    ) == is_leaving(now)


def _is_changed(gang: PodGang, job: Job) -> bool:
    return gang.job is None or job.submitted_at(gang.job.submitted_us) != gang.job


def _shape(job: Job) -> list[Request]:
    """What its tasks ask for, rank by rank, but for where."""
    return [replace(role.request, where="", most_per_node=0) for role in job.roles for _ in range(role.count)]


def _started_us(pod: Object) -> int:
    text = (pod.get("status") or {}).get("startTime")
    return created_us({"metadata": {"creationTimestamp": text}}) if text else created_us(pod)
