"""One gang of pods, from the first pod seen until the last one is gone. Pure: it is told, and says what follows.

A gang *gathers* until it is complete, *waits* once the service knows of it, and is *placed* once the service has said
where each task goes. A task is a rank; pods come and go in it: an owner may make a failed pod anew, and the new one
takes the rank that is empty. Until the gang is over its cards stay its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpusquad.core.observed import TaskLocation
from gpusquad.core.ports import TaskEnd
from gpusquad.engines.kubernetes.parse.groups import ALONE, Membership
from gpusquad.kube.names import JOB
from gpusquad.kube.objects import Object, annotations_of, is_leaving, name_of, uid_of
from gpusquad.model.job import Job, Request
from gpusquad.model.sharing_params import SharingParams

RUNNING, SUCCEEDED, FAILED, DELETED = "Running", "Succeeded", "Failed", "deleted"
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
class GangRank:
    """One task: what it asks for, where it is, and which pod is in it."""

    request: Request
    place: TaskLocation | None = None
    pod: str = ""
    """The uid of its pod; empty: none yet, or the last one has ended."""
    binding: bool = False
    """Asked for, and no answer yet."""
    on_node: bool = False
    """Its pod is bound, whether or not it has been seen so."""
    end: str = ""
    """How the last pod in it ended that had been on its node, if none came after it."""

    def put(self, uid: str) -> None:
        self.pod, self.end, self.binding, self.on_node = uid, "", False, False


@dataclass
class PodGang:
    """All that is known of one, for one life: when its job is over for good, another object takes its place."""

    member: Membership
    pods: dict[str, Object] = field(default_factory=dict)
    job: Job | None = None
    """Once it was complete. Stays while its pods are made anew."""
    meant: tuple[str, ...] = ()
    """The uids of the pods that were counted for each rank when it was complete."""
    attempt: int = 0
    ranks: list[GangRank] = field(default_factory=list)
    seats: dict[str, GangRank] = field(default_factory=dict)
    """The ranks that have a pod, by its uid."""
    running: set[str] = field(default_factory=set)
    """The uids of pods that were seen running in its ranks."""
    placed: bool = False
    adopted: bool = False
    """It was found on its cards: the service did not put it there."""
    disowned: bool = False
    """It was found where the service has no place for it: what it takes is counted as others'."""
    was_placed: bool = False
    """In this life, at least once."""
    started: bool = False
    """The service heard that all its tasks run."""
    stopping: str = ""
    """Why it was told to go."""
    is_finished: bool = False
    """The service does not know it any more: when it has gone it is forgotten."""
    grace_s: float | None = None
    failed_start: bool = False
    """It is being released because not all of it could start."""
    deleted: set[str] = field(default_factory=set)
    """Pods whose deletion was asked for."""
    strays: set[str] = field(default_factory=set)
    """Pods in its ranks that say by now that they are another group's."""
    spent: frozenset[str] = frozenset()
    """Pods of an earlier life that was refused: they do not count for this one."""
    life: int = 0
    """How often it was a job before, and ended."""
    owner: Object | None = None
    """Who made the last pod that was seen."""
    asking: bool = False
    """Its owner is being asked how it is."""
    alone_for: str = ""
    """The uid of the one pod that its group had no place for; empty: a group like any other."""
    able: set[str] = field(default_factory=set)
    """The uids of the pods that could be counted for it."""
    waits_for: str = ""
    """What it lacks to be complete, in words."""
    first_end: TaskEnd | None = None

    # -- what is there ---------------------------------------------------------------------------------------------

    @property
    def comes_back(self) -> bool:
        """Its pods are made again when they are deleted, and are this gang then. A pod that is alone comes back under
        another uid, as another job."""
        return self.member.remakes and self.member.key.kind != ALONE

    def live(self) -> list[Object]:
        return [pod for pod in self.pods.values() if is_live(pod)]

    def unbound(self) -> list[Object]:
        return [pod for pod in self.pods.values() if is_unbound(pod)]

    def on_nodes(self) -> list[Object]:
        """What has to go for its cards to be free: pods in its ranks, and those that were bound for it too late."""
        job = self.job.id if self.job is not None else None
        return [pod for uid, pod in self.pods.items() if not is_over(pod) and self._is_on_node(uid, pod, job)]

    def _is_on_node(self, uid: str, pod: Object, job: str | None) -> bool:
        rank = self.seats.get(uid)
        if rank is not None:
            return rank.on_node or bool(node_name(pod))
        return bool(node_name(pod)) and annotations_of(pod).get(JOB) == job

    def has(self, uid: str) -> bool:
        """Whether the pod is in one of its ranks."""
        return uid in self.seats

    def works_on(self, node: str) -> bool:
        """Whether it has a task there that is not done."""
        return any(rank.place is not None and rank.place.node == node and rank.end != SUCCEEDED for rank in self.ranks)

    def cards_on(self, node: str) -> frozenset[str]:
        """The cards that are its own there."""
        return frozenset(
            card for rank in self.ranks if rank.place and rank.place.node == node for card in rank.place.cards
        )

    # -- placed ----------------------------------------------------------------------------------------------------

    def place(self, attempt: int, job: Job, places: Iterable[TaskLocation]) -> None:
        """The service has decided: each rank has its place, and pods that wait are to be bound there."""
        self.job, self.attempt, self.placed, self.started, self.stopping = job, attempt, True, False, ""
        self.first_end, self.failed_start, self.deleted, self.adopted = None, False, set(), False
        self.disowned = False
        self.was_placed = True
        requests = [role.request for role in job.roles for _ in range(role.count)]
        self.ranks = [GangRank(request, place) for request, place in zip(requests, places, strict=True)]
        self.seats, self.running = {}, set()

    def unplace(self) -> None:
        """Its cards are free again."""
        self.ranks, self.seats, self.placed, self.started, self.stopping = [], {}, False, False, ""

    def change_worth(self, sharing_params: SharingParams) -> None:
        """Pods that are made again are bound by what their rank says, not by what was decided at the launch."""
        for rank in self.ranks:
            if rank.place is not None:
                rank.place = replace(rank.place, sharing_params=sharing_params)

    def worth_of(self, uid: str) -> tuple[Object, SharingParams] | None:
        """A pod on its node, and what it is worth. None: it is not there, or nobody has said."""
        rank, pod = self.seats.get(uid), self.pods.get(uid)
        if rank is None or rank.place is None or rank.place.sharing_params is None or pod is None or not is_live(pod):
            return None
        return (pod, rank.place.sharing_params) if rank.on_node or node_name(pod) else None

    def put(self, rank: GangRank, uid: str) -> None:
        rank.put(uid)
        self.seats[uid] = rank

    def seat(self, requests: Mapping[str, Request]) -> list[tuple[GangRank, Object]]:
        """Give every pod that waits an empty rank that asks for the same; returns who is to be bound where."""
        waiting = {uid: pod for uid, pod in self.pods.items() if uid not in self.seats and is_unbound(pod)}
        if not waiting or len(self.seats) == len(self.ranks):
            return []
        fresh = []
        for rank, uid in zip(self.ranks, self.meant, strict=False):
            if not rank.pod and uid in waiting and requests.get(uid) == rank.request:
                fresh.append((rank, waiting.pop(uid)))
        taken = {id(rank) for rank, _ in fresh}
        empty: defaultdict[Request, list[GangRank]] = defaultdict(list)
        for rank in reversed(self.ranks):
            if not rank.pod and id(rank) not in taken:
                empty[rank.request].append(rank)
        for uid, pod in sorted(waiting.items(), key=lambda item: name_of(item[1])):
            ranks = empty.get(requests[uid]) if uid in requests else None
            if ranks:
                fresh.append((ranks.pop(), pod))
        for rank, pod in fresh:
            self.put(rank, uid_of(pod))
            rank.binding = True
        return fresh

    def goes_on(self, uid: str) -> bool:
        """Nothing follows from a change of this pod, by what is known of it alone: gangs have thousands of pods."""
        rank, pod = self.seats.get(uid), self.pods.get(uid)
        if rank is None or pod is None or self.stopping or not is_live(pod):
            return False
        rank.on_node = rank.on_node or bool(node_name(pod))
        if self.started or phase_of(pod) != RUNNING:
            return True
        self.running.add(uid)
        return len(self.running) + len(self.ranks) - len(self.seats) < len(self.ranks)

    def left_over(self) -> list[Object]:
        """Pods that wait and have no rank, nor will get one when those on their way out have left theirs."""
        waiting = [pod for uid, pod in self.pods.items() if uid not in self.seats and is_unbound(pod)]
        if not waiting:
            return []
        free = sum(not rank.pod or is_leaving(self.pods[rank.pod]) for rank in self.ranks)
        return sorted(waiting, key=name_of)[free:]

    def settle(self) -> None:
        """Ranks whose pod is over or gone are empty, and remember how that pod ended."""
        self.running = {uid for uid in self.seats if uid in self.pods and phase_of(self.pods[uid]) == RUNNING}
        for index, rank in enumerate(self.ranks):
            if not rank.pod:
                continue
            pod = self.pods.get(rank.pod)
            if pod is not None and not is_over(pod):
                rank.on_node = rank.on_node or bool(node_name(pod))
                continue
            end = phase_of(pod) if pod is not None else DELETED if rank.on_node else ""
            del self.seats[rank.pod]
            rank.put("")
            rank.end = end
            if end not in ("", SUCCEEDED) and self.first_end is None:
                self.first_end = _task_end(index, pod)

    @property
    def all_run(self) -> bool:
        return bool(self.ranks) and all(
            rank.end == SUCCEEDED or (rank.pod in self.pods and phase_of(self.pods[rank.pod]) == RUNNING)
            for rank in self.ranks
        )

    @property
    def has_failed(self) -> bool:
        """A pod ended that should not have."""
        return any(rank.end not in ("", SUCCEEDED) for rank in self.ranks)

    @property
    def has_ended(self) -> bool:
        """Some pods were in it, and none is any more."""
        return not self.seats and any(rank.end for rank in self.ranks)

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
