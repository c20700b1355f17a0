"""What the book of gangs cannot do itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from gpusquad.core.observed import Sighting, TaskLocation
from gpusquad.core.ports import Report
from gpusquad.engines.kubernetes.gangs.pod_gang import GangRank, PodGang
from gpusquad.kube.objects import Object


class ClusterOperations(Protocol):
    """None of these waits."""

    def report(self, said: Report | Sighting) -> None: ...
    def bind(self, gang: PodGang, rank: GangRank, pod: Object) -> None:
        """The answer comes as ``Book.bound`` or ``Book.not_bound``, and only when it is certain."""
        ...

    def delete(self, pod: Object, why: str, grace_s: float | None) -> None: ...
    def delete_owner(self, gang: PodGang, why: str) -> None: ...
    def ask_owner(self, gang: PodGang) -> None:
        """The answer comes as ``Book.owner_said``."""
        ...

    def obstacle(self, gang: PodGang, places: Sequence[TaskLocation]) -> str:
        """Why the gang may not go there after all, as far as can be seen now; empty: nothing is in the way."""
        ...

    def shut(self, rank: GangRank, pod: Object) -> str:
        """Why a pod that was made anew may not go where the one before it was; empty: it may."""
        ...

    def watch_start(self, gang: PodGang) -> None:
        """If it has not started in time: ``Book.start_timed_out``."""
        ...

    def look_again(self, nodes: Iterable[str]) -> None:
        """Pods there have become a gang's, or are no more: they are counted otherwise from now on."""
        ...

    def lacks(self, gang: PodGang, what: str) -> None:
        """The gang cannot be considered yet, or at all; its users want to know."""
        ...
