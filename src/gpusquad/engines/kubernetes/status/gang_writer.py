"""Gangs are told, pods are written to: which pods, in which words."""

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
from gpusquad.engines.kubernetes.status.writer import PodStatusWriter, StatusApi, waiting_ones
from gpusquad.kube.objects import Object, name_of, namespace_of, uid_of
from gpusquad.model.job import Request

MOST_NODES = 8
GATHER_S = 3.0
"""Pods of a gang come one after the other: what is missing is told only if it stays so."""


class GangStatusWriter:
    """Lives in the hub's thread, as the book does."""

    def __init__(self, api: StatusApi, book: GangRegistry, ask: Callable[[Object], Request],
                 find: Callable[[str], Object | None], settings: KubernetesSettings) -> None:  # fmt: skip
        self._book = book
        self._ask = ask
        self._settings = settings
        self._teller = PodStatusWriter(
            api, find, settings.status, dry_run=settings.dry_run, instance=socket.gethostname()
        )  # fmt: skip
        self.run = self._teller.run
        self._farewells: dict[str, None] = {}
        """Pods that know why they go."""

    @property
    def waiting(self) -> int:
        return self._teller.waiting

    # -- by the service ----------------------------------------------------------------------------------------------

    def why(self, job: str, saying: StatusMessage, place: int) -> None:
        """Why a gang waits, on all of its pods."""
        self._teller.say(self._waiting(job), saying, Urgency.WHY, place)

    def once(self, job: str, saying: StatusMessage) -> None:
        """On the first pod of a gang."""
        self._teller.say(self._waiting(job)[:1] or self._all(job)[:1], saying, Urgency.PROMISE)

    def farewell(self, job: str, saying: StatusMessage) -> None:
        """On all pods of a gang that is about to leave its nodes."""
        pods = self._all(job)
        self._farewells.update((uid_of(pod), None) for pod in pods)
        while len(self._farewells) > 10_000:
            self._farewells.pop(next(iter(self._farewells)))
        self._teller.say(pods, saying, Urgency.LEAVING)

    def promise(self, job: str, nodes: Sequence[str]) -> None:
        """The nodes by rank that a gang will have; none: it is not known, or no longer promised."""
        gang = self._book.by_job.get(job)
        if gang is not None and not gang.placed:
            self._teller.nominate(self._waiting(job), self._seats(gang, nodes))

    def job_of_pod(self, namespace: str, name: str) -> str:
        for gang in self._book.gangs.values():
            for pod in gang.pods.values() if gang.member.key.namespace == namespace else ():
                if name_of(pod) == name:
                    return gang.job.id if gang.job is not None else ""
        return ""

    # -- by the engine -----------------------------------------------------------------------------------------------

    def lacks(self, gang: PodGang, what: str) -> None:
        """It cannot be considered yet, or at all."""
        pods = waiting_ones(gang.pods.values())
        self._teller.say(pods, StatusMessage(FAILED_SCHEDULING, f"{gang_words(gang, len(pods))}{what}", is_why=True),
                         Urgency.WHY, after_s=GATHER_S)  # fmt: skip

    def bound(self, gang: PodGang, attempt: int, pod: Object) -> None:
        rank = next((r for r in gang.ranks if r.pod == uid_of(pod)), None)
        if rank is not None and gang.attempt == attempt:
            self.assigned(gang, rank, pod)

    def assigned(self, gang: PodGang, rank: GangRank, pod: Object) -> None:
        """Bound, or would be."""
        wish = self._settings.status.assigned
        if wish == "none" or rank.place is None or (wish == "gang" and rank is not gang.ranks[0]):
            return
        done = "Would assign" if self._settings.dry_run else "Successfully assigned"
        message = f"{done} {namespace_of(pod)}/{name_of(pod)} to {rank.place.node}"
        if len(gang.ranks) > 1:
            places = (r.place.node for r in gang.ranks if r.place is not None)
            message += f"; its gang: {len(gang.ranks)} pods on {nodes_words(places)}"
        self._teller.say([pod], StatusMessage(SCHEDULED, message, is_warning=False))

    def goes(self, pod: Object, why: str) -> None:
        """It is being deleted; whoever has said why already has said it better."""
        if uid_of(pod) not in self._farewells:
            self._teller.say([pod], StatusMessage("Released", f"taken away by the scheduler: {why}"), Urgency.LEAVING)

    # -- which pods --------------------------------------------------------------------------------------------------

    def _waiting(self, job: str) -> list[Object]:
        gang = self._book.by_job.get(job)
        return waiting_ones(gang.pods.values()) if gang is not None and not gang.placed else []

    def _all(self, job: str) -> list[Object]:
        gang = self._book.by_job.get(job)
        return sorted(gang.pods.values(), key=name_of) if gang is not None else []

    def _seats(self, gang: PodGang, nodes: Sequence[str]) -> dict[str, str]:
        """By pod. The very code that will seat them, tried on a gang of paper."""
        if gang.job is None or len(nodes) != gang.job.tasks:
            return {}
        paper = PodGang(gang.member, dict(gang.pods))
        paper.place(0, gang.job, [TaskLocation(node, ()) for node in nodes])
        requests = {uid: self._ask(pod) for uid, pod in gang.pods.items() if is_unbound(pod)}
        return {uid_of(pod): rank.place.node for rank, pod in paper.seat(requests) if rank.place is not None}


def gang_words(gang: PodGang, pods: int) -> str:
    """``gang big: `` where it is more than one pod."""
    name = gang.member.key.name
    return f"gang {name}: " if name and (pods > 1 or (gang.member.size or 1) > 1) else ""


def nodes_words(nodes: Iterable[str]) -> str:
    """``a (4), b (4)``; of many only the first."""
    counts = Counter(nodes)
    shown = [f"{node} ({count})" if count > 1 else node for node, count in sorted(counts.items())[:MOST_NODES]]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
