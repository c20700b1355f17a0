"""Operations on the cluster that the gang registry requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from gpusquad.core.observed import Sighting, TaskLocation
from gpusquad.core.ports import Report
from gpusquad.engines.kubernetes.gangs.pod_gang import GangRank, PodGang
from gpusquad.kube.objects import Object


class ClusterOperations(Protocol):
    """None of them blocks."""

    def report(self, event: Report | Sighting) -> None: ...
    def bind(self, gang: PodGang, rank: GangRank, pod: Object) -> None:
        """Answered by ``GangRegistry.bound`` or ``GangRegistry.not_bound``, once the outcome is certain."""
        ...

    def delete(self, pod: Object, why: str, grace_s: float | None) -> None: ...
    def delete_owner(self, gang: PodGang, why: str) -> None: ...
    def check_owner(self, gang: PodGang) -> None:
        """Answered by ``GangRegistry.owner_checked``."""
        ...

    def obstacle(self, gang: PodGang, places: Sequence[TaskLocation]) -> str:
        """Why the gang cannot go to these places any more; empty: it can."""
        ...

    def node_obstacle(self, rank: GangRank, pod: Object) -> str:
        """Why a recreated pod cannot go to the node of its rank; empty: it can."""
        ...

    def watch_start(self, gang: PodGang) -> None:
        """Calls ``GangRegistry.start_timed_out`` if the gang has not started in time."""
        ...

    def recount_nodes(self, nodes: Iterable[str]) -> None:
        """Pods on these nodes have joined or left a gang and must be counted again."""
        ...

    def report_unschedulable(self, gang: PodGang, what: str) -> None:
        """The gang cannot be considered yet, or at all. Shows its users why."""
        ...
