"""Finds the gang of a job that the service remembers, before anything has been told after a start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gpusquad.core.observed import TaskLocation
from gpusquad.engines.kubernetes.gangs.pod_gang import GangRank, PodGang, is_over, node_name
from gpusquad.engines.kubernetes.parse.groups import ALONE, GroupKey, Membership, by_itself
from gpusquad.engines.kubernetes.parse.ids import job_id
from gpusquad.engines.kubernetes.parse.pins import pin_of
from gpusquad.kube.names import ATTEMPT, JOB
from gpusquad.kube.objects import Object, annotations_of, namespace_of, uid_of
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job

MOST_LIVES = 1000
RESUMED = "resumed"
"""Stands for the kind of a group that cannot be read any more, of which pods still run."""


class GangRecovery:
    """Every pod is told of once or more; asked once a job."""

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
            for life in (0, 1):
                self._by_job.setdefault(job_id(key, life), (key, life))
        if key.kind != ALONE and not job:
            self._alone[job_id(by_itself(gang.member, pod).key)] = (key, uid)

    def group(self, job: Job) -> tuple[GroupKey, int] | None:
        """Its group, and which of that group's lives it is."""
        found = self._by_job.get(job.id)
        if found is None:
            # Only groups that are but a name live often, and the job has that name.
            for key in self._by_name.get((job.tenant, job.name), ()):
                life = life_of(key, job.id)
                if life is not None:
                    return key, life
        return found

    def single(self, job: str) -> tuple[GroupKey, str] | None:
        """The group and the uid of a pod that was no part of it, but a job of its own."""
        return self._alone.get(job)

    def bound(self, job: str) -> Sequence[str]:
        """The pods that were bound for it, whatever group they seem to be of now."""
        return list(self._bound.get(job, ()))


def life_of(key: GroupKey, job: str) -> int | None:
    """Which of its lives the group was in when it was that job; None: it never was."""
    if not key.uid:
        return None
    return next((life for life in range(MOST_LIVES) if job_id(key, life) == job), None)


def resumed(job: Job, pods: Sequence[Object]) -> Membership:
    """For pods whose group is not to be read: their owner may have been deleted just now."""
    key = GroupKey(RESUMED, namespace_of(pods[0]), f"{job.name}/{job.id}", "")
    return Membership(key, None, 1, False)


def reseat(gang: PodGang, attempt: int) -> None:
    """Pods that are on their nodes, or were until they ended, take their ranks again."""
    assert gang.job is not None
    empty: defaultdict[object, list[GangRank]] = defaultdict(list)
    for rank in reversed(gang.ranks):
        if rank.place is not None:
            empty[_where(rank.place)].append(rank)
    bound = [pod for pod in gang.pods.values() if node_name(pod)]
    for pod in sorted(bound, key=is_over):
        said = annotations_of(pod)
        of_attempt = said.get(JOB) == gang.job.id and said.get(ATTEMPT, str(attempt)) == str(attempt)
        ranks = empty.get(_where(place_of(pod)))
        if ranks and (of_attempt or (not is_over(pod) and said.get(JOB, gang.job.id) == gang.job.id)):
            gang.put(ranks.pop(), uid_of(pod))


def _where(place: TaskLocation) -> object:
    """A pin has a pod's cards by container, and not in the order of the decision."""
    return place.node, frozenset(place.cards)


def place_of(pod: Object) -> TaskLocation:
    """Where a bound pod is, by its pin."""
    try:
        pinned = pin_of(pod) or {}
    except Invalid:
        pinned = {}
    cards = dict.fromkeys(card for cards in pinned.values() for card in cards)
    return TaskLocation(node_name(pod), tuple(cards))
