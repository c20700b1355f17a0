"""State of one gang of pods, from the first pod seen until the last one is gone. Pure.

A gang is *unplaced* until the service has chosen a place for each task, then *placed*. A task is a rank. If an owner
recreates a failed pod, the new pod takes the empty rank. The gang keeps its cards until it has ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpusquad.core.observed import TaskLocation
from gpusquad.core.ports import TaskEnd
from gpusquad.engines.kubernetes.parse.groups import ALONE, Membership
from gpusquad.engines.kubernetes.pruning import DISRUPTION
from gpusquad.kube.names import JOB
from gpusquad.kube.objects import Object, annotations_of, is_leaving, name_of, uid_of
from gpusquad.model.job import Job, Request
from gpusquad.model.priority import DEFAULT_PRIORITY
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
    """Neither ended nor being deleted."""
    return not is_over(pod) and not is_leaving(pod)


def is_unbound(pod: Object) -> bool:
    return is_live(pod) and not node_name(pod)


@dataclass
class GangRank:
    """One task: its request, its location and its pod."""

    request: Request
    place: TaskLocation | None = None
    pod: str = ""
    """UID of its pod; empty: none yet, or the last one has ended."""
    binding: bool = False
    """The binding is in flight."""
    on_node: bool = False
    """The pod is bound, even if the watch has not shown it yet."""
    end: str = ""
    """How its last bound pod ended, if it has no other pod."""
    failed_by_itself: bool = False
    """That pod failed, and nothing else stopped it."""

    def put(self, uid: str) -> None:
        self.pod, self.end, self.binding, self.on_node, self.failed_by_itself = uid, "", False, False, False


@dataclass
class PodGang:
    """All that is known of one incarnation of a gang. When its job has ended, a new object replaces it."""

    member: Membership
    pods: dict[str, Object] = field(default_factory=dict)
    job: Job | None = None
    """Set when the gang was first complete. Kept while its pods are recreated."""
    cluster_priority: str = DEFAULT_PRIORITY
    """Priority class that the cluster grants to its pods. Read by other threads."""
    intended: tuple[str, ...] = ()
    """UIDs of the pods that were counted for each rank when the gang was complete."""
    attempt: int = 0
    ranks: list[GangRank] = field(default_factory=list)
    ranks_by_pod: dict[str, GangRank] = field(default_factory=dict)
    """Ranks that have a pod, by its UID."""
    running: set[str] = field(default_factory=set)
    """UIDs of pods that were seen running in its ranks."""
    placed: bool = False
    adopted: bool = False
    """It was found on its cards, without a decision of the service."""
    disowned: bool = False
    """It was found where the service has no place for it. Its usage counts as foreign."""
    was_placed: bool = False
    """At least once in this incarnation."""
    started: bool = False
    """The service has been told that all tasks run."""
    stopping: str = ""
    """Why it is being stopped."""
    is_finished: bool = False
    """The service has finished its job. It is forgotten when its pods are gone."""
    grace_s: float | None = None
    failed_start: bool = False
    """It is being released because not all of its pods could start."""
    deleted: set[str] = field(default_factory=set)
    """Pods whose deletion was requested."""
    regrouped: set[str] = field(default_factory=set)
    """Pods in its ranks that now name another group."""
    refused_pods: frozenset[str] = frozenset()
    """Pods of an earlier incarnation that was refused. They do not count for this one."""
    incarnation: int = 0
    """Number of earlier jobs of this group."""
    owner: Object | None = None
    """Owner of the last pod that was seen."""
    is_checking_owner: bool = False
    """A check of its owner is in flight."""
    single_pod: str = ""
    """UID of the single pod that its group had no rank for; empty: an ordinary group."""
    usable: set[str] = field(default_factory=set)
    """UIDs of the pods that can be counted for it."""
    waits_for: str = ""
    """What it lacks to be complete, as text."""
    first_end: TaskEnd | None = None
    is_checked: bool = False
    """Nothing was in the way of its unbound pods when it was launched just now."""
    refusals: int = 0
    """Launches in a row that were refused because something was in the way."""

    # -- pods ------------------------------------------------------------------------------------------------------

    @property
    def is_recreated(self) -> bool:
        """Deleted pods are recreated and belong to this gang. A single pod is recreated with another UID, as another
        job."""
        return self.member.recreates and self.member.key.kind != ALONE

    def live(self) -> list[Object]:
        return [pod for pod in self.pods.values() if is_live(pod)]

    def unbound(self) -> list[Object]:
        return [pod for pod in self.pods.values() if is_unbound(pod)]

    def on_nodes(self) -> list[Object]:
        """Pods that must be gone before its cards are free: those in its ranks, and those that were bound for it too
        late."""
        job = self.job.id if self.job is not None else None
        return [pod for uid, pod in self.pods.items() if not is_over(pod) and self._is_on_node(uid, pod, job)]

    def _is_on_node(self, uid: str, pod: Object, job: str | None) -> bool:
        rank = self.ranks_by_pod.get(uid)
        if rank is not None:
            return rank.on_node or bool(node_name(pod))
        return bool(node_name(pod)) and annotations_of(pod).get(JOB) == job

    def has(self, uid: str) -> bool:
        """The pod is in one of its ranks."""
        return uid in self.ranks_by_pod

    def works_on(self, node: str) -> bool:
        """It has an unfinished task on the node."""
        return any(rank.place is not None and rank.place.node == node and rank.end != SUCCEEDED for rank in self.ranks)

    def cards_on(self, node: str) -> frozenset[str]:
        """Its cards on the node."""
        return frozenset(
            card for rank in self.ranks if rank.place and rank.place.node == node for card in rank.place.cards
        )

    # -- placed ----------------------------------------------------------------------------------------------------

    def place(self, attempt: int, job: Job, places: Iterable[TaskLocation]) -> None:
        """Applies a decision of the service: each rank has its place, and pending pods are to be bound there."""
        self.job, self.attempt, self.placed, self.started, self.stopping = job, attempt, True, False, ""
        self.first_end, self.failed_start, self.deleted, self.adopted = None, False, set(), False
        self.disowned = self.is_checked = False
        self.was_placed = True
        requests = [role.request for role in job.roles for _ in range(role.count)]
        self.ranks = [GangRank(request, place) for request, place in zip(requests, places, strict=True)]
        self.ranks_by_pod, self.running = {}, set()

    def unplace(self) -> None:
        """Its cards are free."""
        self.ranks, self.ranks_by_pod, self.placed, self.started, self.stopping = [], {}, False, False, ""

    def set_sharing(self, sharing_params: SharingParams) -> None:
        """Recreated pods are bound with the parameters of their rank, not with those of the launch."""
        for rank in self.ranks:
            if rank.place is not None:
                rank.place = replace(rank.place, sharing_params=sharing_params)

    def pod_sharing(self, uid: str) -> tuple[Object, SharingParams] | None:
        """A bound pod and its sharing parameters. None: not bound, or no parameters are known."""
        rank, pod = self.ranks_by_pod.get(uid), self.pods.get(uid)
        if rank is None or rank.place is None or rank.place.sharing_params is None or pod is None or not is_live(pod):
            return None
        return (pod, rank.place.sharing_params) if rank.on_node or node_name(pod) else None

    def put(self, rank: GangRank, uid: str) -> None:
        rank.put(uid)
        self.ranks_by_pod[uid] = rank

    def assign_ranks(self, requests: Mapping[str, Request]) -> list[tuple[GangRank, Object]]:
        """Assigns pending pods to empty ranks with equal requests. Returns the pods to bind, with their ranks."""
        waiting = {uid: pod for uid, pod in self.pods.items() if uid not in self.ranks_by_pod and is_unbound(pod)}
        if not waiting or len(self.ranks_by_pod) == len(self.ranks):
            return []
        assigned = []
        for rank, uid in zip(self.ranks, self.intended, strict=False):
            if not rank.pod and uid in waiting and requests.get(uid) == rank.request:
                assigned.append((rank, waiting.pop(uid)))
        taken = {id(rank) for rank, _ in assigned}
        empty: defaultdict[Request, list[GangRank]] = defaultdict(list)
        for rank in reversed(self.ranks):
            if not rank.pod and id(rank) not in taken:
                empty[rank.request].append(rank)
        for uid, pod in sorted(waiting.items(), key=lambda item: name_of(item[1])):
            ranks = empty.get(requests[uid]) if uid in requests else None
            if ranks:
                assigned.append((ranks.pop(), pod))
        for rank, pod in assigned:
            self.put(rank, uid_of(pod))
            rank.binding = True
        return assigned

    def is_unaffected_by(self, uid: str) -> bool:
        """A change of this pod has no consequence for the gang. Fast, because gangs may have thousands of pods."""
        rank, pod = self.ranks_by_pod.get(uid), self.pods.get(uid)
        if rank is None or pod is None or self.stopping or not is_live(pod):
            return False
        rank.on_node = rank.on_node or bool(node_name(pod))
        if self.started or phase_of(pod) != RUNNING:
            return True
        self.running.add(uid)
        return len(self.running) + len(self.ranks) - len(self.ranks_by_pod) < len(self.ranks)

    def surplus_pods(self) -> list[Object]:
        """Pending pods that have no rank and get none when pods that are being deleted have left theirs."""
        waiting = [pod for uid, pod in self.pods.items() if uid not in self.ranks_by_pod and is_unbound(pod)]
        if not waiting:
            return []
        free = sum(not rank.pod or is_leaving(self.pods[rank.pod]) for rank in self.ranks)
        return sorted(waiting, key=name_of)[free:]

    def empty_ended_ranks(self) -> None:
        """Empties ranks whose pod has ended or is gone, and records how it ended."""
        self.running = {uid for uid in self.ranks_by_pod if uid in self.pods and phase_of(self.pods[uid]) == RUNNING}
        for index, rank in enumerate(self.ranks):
            if not rank.pod:
                continue
            pod = self.pods.get(rank.pod)
            if pod is not None and not is_over(pod):
                rank.on_node = rank.on_node or bool(node_name(pod))
                continue
            end = phase_of(pod) if pod is not None else DELETED if rank.on_node else ""
            del self.ranks_by_pod[rank.pod]
            rank.put("")
            rank.end, rank.failed_by_itself = end, pod is not None and _has_failed_by_itself(pod)
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
        """A pod ended without success."""
        return any(rank.end not in ("", SUCCEEDED) for rank in self.ranks)

    @property
    def has_failed_by_itself(self) -> bool:
        """A pod failed, and no pod was deleted, evicted or lost with its node."""
        return self.has_failed and all(rank.failed_by_itself for rank in self.ranks if rank.end not in ("", SUCCEEDED))

    @property
    def has_ended(self) -> bool:
        """It had pods, and all of them have ended."""
        return not self.ranks_by_pod and any(rank.end for rank in self.ranks)

    @property
    def has_succeeded(self) -> bool:
        return bool(self.ranks) and all(rank.end == SUCCEEDED for rank in self.ranks)


def _has_failed_by_itself(pod: Object) -> bool:
    """The kubelet and the control plane set a reason or a condition on a pod that they end."""
    status = pod.get("status") or {}
    if phase_of(pod) != FAILED or is_leaving(pod) or status.get("reason"):
        return False
    if any(each["type"] == DISRUPTION for each in status.get("conditions") or ()):
        return False
    states = ((each.get("state") or {}).get("terminated") or {} for each in status.get("containerStatuses") or ())
    return any(ended.get("exitCode") for ended in states)


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
