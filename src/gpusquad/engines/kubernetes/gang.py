"""One gang of pods, from the first pod seen until the last one is gone. Pure: it is told, and says what follows.

A gang *gathers* until it is complete, *waits* once the service knows of it, and is *placed* once the service has said
where each task goes. A task is a rank; pods come and go in it: an owner may make a failed pod anew, and the new one
takes the rank that is empty. Until the gang is over its cards stay its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpusquad.core.ports import TaskEnd
from gpusquad.core.sightings import Place
from gpusquad.engines.kubernetes.objects import Object, is_leaving, name_of, uid_of
from gpusquad.engines.kubernetes.reading.groups import Membership
from gpusquad.model.job import Job, Request

RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"
OVER = (SUCCEEDED, FAILED)


def phase_of(pod: Object) -> str:
    return (pod.get("status") or {}).get("phase", "Pending")


def node_name(pod: Object) -> str:
    return pod["spec"].get("nodeName", "")


def is_over(pod: Object) -> bool:
    return phase_of(pod) in OVER


def is_live(pod: Object) -> bool:
    """Neither over nor on its way out."""
    return not is_over(pod) and not is_leaving(pod)


def is_unbound(pod: Object) -> bool:
    return is_live(pod) and not node_name(pod)


@dataclass
class Rank:
    """One task: what it asks for, where it is, and which pod is in it."""

    request: Request
    place: Place | None = None
    pod: str = ""
    """The uid of its pod; empty: none yet, or the last one has ended."""
    binding: bool = False
    """Asked for, and no answer yet."""
    end: str = ""
    """How the last pod in it ended, if none came after it."""

    def put(self, uid: str) -> None:
        self.pod, self.end, self.binding = uid, "", False


@dataclass
class Gang:
    """All that is known of one."""

    member: Membership
    pods: dict[str, Object] = field(default_factory=dict)
    job: Job | None = None
    """Once it was complete. Stays while its pods are made anew."""
    attempt: int = 0
    ranks: list[Rank] = field(default_factory=list)
    placed: bool = False
    started: bool = False
    """The service heard that all its tasks run."""
    stopping: str = ""
    """Why it was told to go."""
    grace_s: float | None = None
    failed_start: bool = False
    """It is being released because not all of it could start."""
    deleted: set[str] = field(default_factory=set)
    """Pods whose deletion was asked for."""
    life: int = 0
    """How often it was a job before, and ended."""
    owner: Object | None = None
    """Who made the last pod that was seen."""
    asking: bool = False
    """Its owner is being asked how it is."""
    alone_for: str = ""
    """The uid of the one pod that its group had no place for; empty: a group like any other."""
    waits_for: str = ""
    """What it lacks to be complete, in words."""
    first_end: TaskEnd | None = None

    # -- what is there ---------------------------------------------------------------------------------------------

    def live(self) -> list[Object]:
        return [pod for pod in self.pods.values() if is_live(pod)]

    def unbound(self) -> list[Object]:
        return [pod for pod in self.pods.values() if is_unbound(pod)]

    def bound(self) -> list[Object]:
        """On a node, and not over: what has to go for its cards to be free."""
        return [pod for pod in self.pods.values() if node_name(pod) and not is_over(pod)]

    def has(self, uid: str) -> bool:
        """Whether the pod is in one of its ranks."""
        return any(rank.pod == uid for rank in self.ranks)

    def cards_on(self, node: str) -> frozenset[str]:
        """The cards that are its own there."""
        return frozenset(
            card for rank in self.ranks if rank.place and rank.place.node == node for card in rank.place.cards
        )

    # -- placed ----------------------------------------------------------------------------------------------------

    def place(self, attempt: int, job: Job, places: Iterable[Place]) -> None:
        """The service has decided: each rank has its place, and pods that wait are to be bound there."""
        self.job, self.attempt, self.placed, self.started, self.stopping = job, attempt, True, False, ""
        self.first_end, self.failed_start, self.deleted = None, False, set()
        requests = [role.request for role in job.roles for _ in range(role.count)]
        self.ranks = [Rank(request, place) for request, place in zip(requests, places, strict=True)]

    def unplace(self) -> None:
        """Its cards are free again."""
        self.ranks, self.placed, self.started, self.stopping = [], False, False, ""

    def seat(self, requests: Mapping[str, Request]) -> list[tuple[Rank, Object]]:
        """Give every pod that waits an empty rank that asks for the same; returns who is to be bound where."""
        seated = {rank.pod for rank in self.ranks}
        fresh = []
        for pod in sorted(self.unbound(), key=name_of):
            uid = uid_of(pod)
            if uid in seated:
                continue
            rank = next((r for r in self.ranks if not r.pod and r.request == requests.get(uid)), None)
            if rank is not None:
                rank.put(uid)
                rank.binding = True
                fresh.append((rank, pod))
        return fresh

    def settle(self) -> None:
        """Ranks whose pod is over or gone are empty, and remember how that pod ended."""
        for index, rank in enumerate(self.ranks):
            if not rank.pod:
                continue
            pod = self.pods.get(rank.pod)
            if pod is not None and not is_over(pod):
                continue
            rank.end = phase_of(pod) if pod is not None else "deleted"
            rank.pod, rank.binding = "", False
            if rank.end != SUCCEEDED and self.first_end is None:
                self.first_end = _task_end(index, pod)

    @property
    def all_run(self) -> bool:
        return bool(self.ranks) and all(
            rank.end == SUCCEEDED or (rank.pod in self.pods and phase_of(self.pods[rank.pod]) == RUNNING)
            for rank in self.ranks
        )

    @property
    def has_emptied(self) -> bool:
        """No pod is in it any more, and some were."""
        return bool(self.ranks) and not any(rank.pod for rank in self.ranks) and any(rank.end for rank in self.ranks)

    @property
    def has_succeeded(self) -> bool:
        return bool(self.ranks) and all(rank.end == SUCCEEDED for rank in self.ranks)


def _task_end(index: int, pod: Object | None) -> TaskEnd:
    if pod is None:
        return TaskEnd(index, cause="its pod was deleted")
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("exitCode"):
            signal, code = ended.get("signal"), ended["exitCode"]
            return TaskEnd(index, code, signal, ended.get("reason") == "OOMKilled", str(ended.get("message", ""))[:500])
    cause = ": ".join(str(part)[:500] for part in (status.get("reason"), status.get("message")) if part)
    return TaskEnd(index, cause=cause)
