"""Finds the gangs of the jobs that the service has stored, after a restart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gpusquad.core.observed import TaskLocation
from gpusquad.engines.kubernetes.gangs.pod_gang import GangRank, PodGang, is_over, node_name
from gpusquad.engines.kubernetes.parse.groups import ALONE, GroupKey, Membership, single_membership
from gpusquad.engines.kubernetes.parse.ids import job_id
from gpusquad.engines.kubernetes.parse.pins import pin_of
from gpusquad.kube.names import ATTEMPT, JOB
from gpusquad.kube.objects import Object, annotations_of, namespace_of, uid_of
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job

MAX_INCARNATIONS = 1000
RESUMED = "resumed"
"""Pseudo kind of a group that can no longer be parsed and still has running pods."""


class GangRecovery:
    """``note`` is called for every pod, then the queries once per job."""

    def __init__(self) -> None:
        self._by_name: defaultdict[tuple[str, str], dict[GroupKey, None]] = defaultdict(dict)
        self._by_job: dict[str, tuple[GroupKey, int]] = {}
        self._alone: dict[str, tuple[GroupKey, str]] = {}
        self._bound: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def note(self, gang: PodGang, pod: Object) -> None:
        key, uid = gang.member.key, uid_of(pod)
        job = annotations_of(pod).get(JOB, "") if node_name(pod) else ""
        if job:
            self._bound[job][uid] = None
        if not key.uid:
            return
        names = self._by_name[key.namespace, key.name]
        if key not in names:
            names[key] = None
            for incarnation in (0, 1):
                self._by_job.setdefault(job_id(key, incarnation), (key, incarnation))
        if key.kind != ALONE and not job:
            self._alone[job_id(single_membership(gang.member, pod).key)] = (key, uid)

    def group(self, job: Job) -> tuple[GroupKey, int] | None:
        """The group of the job and its incarnation."""
        found = self._by_job.get(job.id)
        if found is None:
            # Only groups that consist of a mere name have many incarnations, and the job has that name.
            for key in self._by_name.get((job.tenant, job.name), ()):
                incarnation = incarnation_of(key, job.id)
                if incarnation is not None:
                    return key, incarnation
        return found

    def single(self, job: str) -> tuple[GroupKey, str] | None:
        """The group, and the UID of a pod that was a job of its own."""
        return self._alone.get(job)

    def bound(self, job: str) -> Sequence[str]:
        """Pods that were bound for the job, whatever group they name now."""
        return list(self._bound.get(job, ()))


def incarnation_of(key: GroupKey, job: str) -> int | None:
    """The incarnation of the group that was this job; None: none was."""
    if not key.uid:
        return None
    return next((incarnation for incarnation in range(MAX_INCARNATIONS) if job_id(key, incarnation) == job), None)


def resumed(job: Job, pods: Sequence[Object]) -> Membership:
    """For pods whose group cannot be parsed, for example because their owner was just deleted."""
    key = GroupKey(RESUMED, namespace_of(pods[0]), f"{job.name}/{job.id}", "")
    return Membership(key, None, 1, False)


def restore_ranks(gang: PodGang, attempt: int) -> None:
    """Puts bound pods, including ended ones, back into their ranks."""
    assert gang.job is not None
    empty: defaultdict[object, list[GangRank]] = defaultdict(list)
    for rank in reversed(gang.ranks):
        if rank.place is not None:
            empty[_where(rank.place)].append(rank)
    bound = [pod for pod in gang.pods.values() if node_name(pod)]
    for pod in sorted(bound, key=is_over):
        annotations = annotations_of(pod)
        of_attempt = annotations.get(JOB) == gang.job.id and annotations.get(ATTEMPT, str(attempt)) == str(attempt)
        ranks = empty.get(_where(place_of(pod)))
        if ranks and (of_attempt or (not is_over(pod) and annotations.get(JOB, gang.job.id) == gang.job.id)):
            gang.put(ranks.pop(), uid_of(pod))


def _where(place: TaskLocation) -> object:
    """A pin lists a pod's cards by container, not in the order of the decision."""
    return place.node, frozenset(place.cards)


def place_of(pod: Object) -> TaskLocation:
    """Location of a bound pod, by its pin."""
    try:
        pinned = pin_of(pod) or {}
    except Invalid:
        pinned = {}
    cards = dict.fromkeys(card for cards in pinned.values() for card in cards)
    return TaskLocation(node_name(pod), tuple(cards))
