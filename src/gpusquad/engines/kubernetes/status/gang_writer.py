"""Status messages for gangs: which pods get them, and the texts that the engine writes itself."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from gpusquad.core.observed import TaskLocation
from gpusquad.engines.kubernetes.gangs.pod_gang import GangRank, PodGang, is_unbound
from gpusquad.engines.kubernetes.gangs.registry import GangRegistry
from gpusquad.engines.kubernetes.settings import KubernetesSettings
from gpusquad.engines.kubernetes.status.backlog import Urgency
from gpusquad.engines.kubernetes.status.message import FAILED_SCHEDULING, SCHEDULED, StatusMessage
from gpusquad.engines.kubernetes.status.writer import PodStatusWriter, StatusApi, pending_pods
from gpusquad.kube.objects import Object, name_of, namespace_of, uid_of
from gpusquad.model.job import Request

MAX_NODES = 8
INCOMPLETE_DELAY_S = 3.0
"""Pods of a gang arrive one after the other, so a message about missing pods waits this long."""


class GangStatusWriter:
    """Used in the loop thread, as the registry is."""

    def __init__(self, api: StatusApi, registry: GangRegistry, request_of: Callable[[Object], Request],
                 find: Callable[[str], Object | None], settings: KubernetesSettings) -> None:  # fmt: skip
        self._registry = registry
        self._request_of = request_of
        self._settings = settings
        self._writer = PodStatusWriter(
            api, find, settings.status, dry_run=settings.dry_run, instance=socket.gethostname()
        )  # fmt: skip
        self.run = self._writer.run
        self._explained: dict[str, None] = {}
        """Pods that have a message about why they are deleted."""

    @property
    def waiting(self) -> int:
        return self._writer.waiting

    # -- called by the service ---------------------------------------------------------------------------------------

    def write_reason(self, job: str, message: StatusMessage, position: int) -> None:
        """Why a gang is pending, on all its pods."""
        self._writer.enqueue(self._waiting(job), message, Urgency.REASON, position)

    def write_event(self, job: str, message: StatusMessage) -> None:
        """On the first pod of a gang."""
        self._writer.enqueue(self._waiting(job)[:1] or self._all(job)[:1], message, Urgency.RESERVATION)

    def write_stop_cause(self, job: str, message: StatusMessage) -> None:
        """Why a gang is stopped, on all its pods."""
        pods = self._all(job)
        self._explained.update((uid_of(pod), None) for pod in pods)
        while len(self._explained) > 10_000:
            self._explained.pop(next(iter(self._explained)))
        self._writer.enqueue(pods, message, Urgency.LEAVING)

    def write_reserved_nodes(self, job: str, nodes: Sequence[str]) -> None:
        """The reserved nodes of a gang by rank. Empty: not known, or no longer reserved."""
        gang = self._registry.by_job.get(job)
        if gang is not None and not gang.placed:
            self._writer.nominate(self._waiting(job), self._nodes_by_pod(gang, nodes))

    def job_of_pod(self, namespace: str, name: str) -> str:
        for gang in self._registry.gangs.values():
            for pod in gang.pods.values() if gang.member.key.namespace == namespace else ():
                if name_of(pod) == name:
                    return gang.job.id if gang.job is not None else ""
        return ""

    # -- called by the engine ----------------------------------------------------------------------------------------

    def write_unschedulable(self, gang: PodGang, what: str) -> None:
        """Why a gang cannot be considered yet, or at all."""
        pods = pending_pods(gang.pods.values())
        self._writer.enqueue(
            pods,
            StatusMessage(FAILED_SCHEDULING, f"{gang_prefix(gang, len(pods))}{what}", is_why=True),
            Urgency.REASON,
            after_s=INCOMPLETE_DELAY_S,
        )

    def bound(self, gang: PodGang, attempt: int, pod: Object) -> None:
        rank = next((r for r in gang.ranks if r.pod == uid_of(pod)), None)
        if rank is not None and gang.attempt == attempt:
            self.assigned(gang, rank, pod)

    def assigned(self, gang: PodGang, rank: GangRank, pod: Object) -> None:
        """The pod was bound. In a dry run: it would be bound."""
        wish = self._settings.status.assigned
        if wish == "none" or rank.place is None or (wish == "gang" and rank is not gang.ranks[0]):
            return
        done = "Would assign" if self._settings.dry_run else "Successfully assigned"
        message = f"{done} {namespace_of(pod)}/{name_of(pod)} to {rank.place.node}"
        if len(gang.ranks) > 1:
            places = (r.place.node for r in gang.ranks if r.place is not None)
            message += f"; its gang: {len(gang.ranks)} pods on {nodes_text(places)}"
        self._writer.enqueue([pod], StatusMessage(SCHEDULED, message, is_warning=False))

    def write_deletion(self, pod: Object, why: str) -> None:
        """The pod is being deleted. A message of the service about the cause takes precedence."""
        if uid_of(pod) not in self._explained:
            self._writer.enqueue([pod], StatusMessage("Released", f"deleted by the scheduler: {why}"), Urgency.LEAVING)

    # -- pods of a gang ----------------------------------------------------------------------------------------------

    def _waiting(self, job: str) -> list[Object]:
        gang = self._registry.by_job.get(job)
        return pending_pods(gang.pods.values()) if gang is not None and not gang.placed else []

    def _all(self, job: str) -> list[Object]:
        gang = self._registry.by_job.get(job)
        return sorted(gang.pods.values(), key=name_of) if gang is not None else []

    def _nodes_by_pod(self, gang: PodGang, nodes: Sequence[str]) -> dict[str, str]:
        """Node by pod, computed on a copy of the gang by the code that will assign the ranks."""
        if gang.job is None or len(nodes) != gang.job.tasks:
            return {}
        copy = PodGang(gang.member, dict(gang.pods))
        copy.place(0, gang.job, [TaskLocation(node, ()) for node in nodes])
        requests = {uid: self._request_of(pod) for uid, pod in gang.pods.items() if is_unbound(pod)}
        return {uid_of(pod): rank.place.node for rank, pod in copy.assign_ranks(requests) if rank.place is not None}


def gang_prefix(gang: PodGang, pods: int) -> str:
    """``gang big: `` if the gang has more than one pod."""
    name = gang.member.key.name
    return f"gang {name}: " if name and (pods > 1 or (gang.member.size or 1) > 1) else ""


def nodes_text(nodes: Iterable[str]) -> str:
    """``a (4), b (4)``, at most ``MAX_NODES`` of them."""
    counts = Counter(nodes)
    shown = [f"{node} ({count})" if count > 1 else node for node, count in sorted(counts.items())[:MAX_NODES]]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
