"""Gangs that have their places, from the decision until no pod is left on a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from gpusquad.core.ports import AttemptEnded, AttemptStarted
from gpusquad.engines.kubernetes.gangs.operations import ClusterOperations
from gpusquad.engines.kubernetes.gangs.pod_gang import DELETED, SUCCEEDED, PodGang, is_unbound
from gpusquad.engines.kubernetes.parse.requests import is_gated
from gpusquad.kube.objects import Object, is_leaving, uid_of
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Request

How = Literal["succeeded", "failed", "stopped", "lost"]


class GangReleased(Protocol):
    """What becomes of a gang that has left its places. The end of its attempt has been reported."""

    def is_over(self, gang: PodGang, how: str, cause: str) -> None:
        """For good: whatever comes under this name later is another job."""
        ...

    def waits_again(self, gang: PodGang) -> None: ...
    def make_alone(self, gang: PodGang, pod: Object) -> None:
        """There is no rank for it."""
        ...


class PlacedGangs:
    """A gang starts whole or not at all, and its cards are free when nothing of it is on its nodes any more."""

    def __init__(self, hands: ClusterOperations, ask: Callable[[Object], Request], after: GangReleased) -> None:
        self._hands = hands
        self._ask = ask
        self._after = after

    def review(self, gang: PodGang) -> None:
        gang.settle()
        if gang.stopping:
            self._go_on_stopping(gang)
        elif gang.has_succeeded:
            self._end(gang, "succeeded", "")
        elif not gang.seats and not any(is_ready(pod) for pod in gang.pods.values()):
            self._emptied(gang)
        elif gang.has_failed and not gang.started and (gang.seats or not gang.comes_back):
            end = gang.first_end
            self.fail_start(gang, f"a pod failed before all had started: {end.cause if end else 'unknown'}")
        else:
            self._fill(gang)

    def _fill(self, gang: PodGang) -> None:
        """Pods that wait take the ranks that are empty."""
        fresh = gang.seat(self._requests(gang))
        if not gang.started and not gang.comes_back and any(not rank.pod and not rank.end for rank in gang.ranks):
            for rank, _ in fresh:
                rank.binding = False
            self.fail_start(gang, "a pod was deleted before it was bound")
            return
        if not gang.seats and gang.has_ended:
            self._make_way(gang)  # what came instead asks for something else
            return
        shut = next((why for rank, pod in fresh if (why := self._hands.shut(rank, pod))), "") if gang.started else ""
        if shut:
            for rank, _ in fresh:
                rank.binding = False
            self.stop(gang, shut, None)  # it starts again whole, elsewhere
            return
        for rank, pod in fresh:
            self._hands.bind(gang, rank, pod)
        for pod in gang.left_over():
            self._after.make_alone(gang, pod)
        if not gang.started and gang.all_run:
            gang.started = True
            self._hands.report(AttemptStarted(id_of(gang), gang.attempt, ()))

    def _requests(self, gang: PodGang) -> dict[str, Request]:
        result: dict[str, Request] = {}
        if len(gang.seats) < len(gang.ranks):
            for uid, pod in gang.pods.items():
                if uid not in gang.seats and is_ready(pod):
                    try:
                        result[uid] = self._ask(pod)
                    except Invalid as error:
                        self._hands.lacks(gang, str(error))
        return result

    # -- its end -----------------------------------------------------------------------------------------------------

    def _emptied(self, gang: PodGang) -> None:
        if not gang.comes_back:
            if all(rank.end in ("", DELETED) for rank in gang.ranks):
                self._end(gang, "stopped", "its pods were deleted", never_started=not gang.has_ended)
            else:
                self._end(gang, "failed", cause_of(gang))
        elif gang.live():
            self._make_way(gang)
        else:
            self._hands.ask_owner(gang)

    def owner_said(self, gang: PodGang, verdict: str) -> None:
        """Of a gang without live pods: its owner is over (``succeeded``, ``failed``, ``gone``) or ``goes on``."""
        gang.settle()
        if gang.stopping or gang.seats:
            return
        if verdict == "goes on":
            if gang.has_ended:
                self._make_way(gang)
        elif verdict == "gone":
            self._end(gang, "stopped", "its owner was deleted", never_started=not gang.has_ended)
        else:
            how: How = "succeeded" if verdict == "succeeded" else "failed"
            self._end(gang, how, "" if how == "succeeded" else cause_of(gang), never_started=not gang.has_ended)

    def _make_way(self, gang: PodGang) -> None:
        """Its pods have ended and are made again: they wait like others."""
        cause = "its pods ended and are made again"
        self._report_end(gang, "lost", cause, never_started=not gang.has_ended)
        gang.unplace()
        self._after.waits_again(gang)

    def _end(self, gang: PodGang, how: How, cause: str, *, never_started: bool = False) -> None:
        self._report_end(gang, how, cause, never_started=never_started)
        gang.unplace()
        self._after.is_over(gang, how, cause)

    def _report_end(self, gang: PodGang, how: How, cause: str, *, never_started: bool) -> None:
        never_started = never_started and not gang.started
        self._hands.report(AttemptEnded(id_of(gang), gang.attempt, how, cause, gang.first_end, never_started))

    # -- stopping ----------------------------------------------------------------------------------------------------

    def fail_start(self, gang: PodGang, why: str) -> None:
        """A gang starts whole or not at all: the rest is released."""
        gang.failed_start = True
        self.stop(gang, why, None)

    def stop(self, gang: PodGang, why: str, grace_s: float | None) -> None:
        gang.stopping, gang.grace_s = why or "it was told to go", grace_s
        gang.settle()
        self._go_on_stopping(gang)

    def _go_on_stopping(self, gang: PodGang) -> None:
        """Until no pod is left on a node, those included that are only now being bound."""
        staying = gang.on_nodes()
        for pod in staying:
            if not is_leaving(pod) and uid_of(pod) not in gang.deleted:
                gang.deleted.add(uid_of(pod))
                self._hands.delete(pod, gang.stopping, gang.grace_s)
        if staying or any(rank.binding for rank in gang.seats.values()):
            return
        cause, how = gang.stopping, _how_stopped(gang)
        if how in ("failed", "succeeded"):
            self._end(gang, how, cause if how == "failed" else "", never_started=gang.failed_start)
            return
        self._report_end(gang, how, cause, never_started=gang.failed_start)
        gang.unplace()
        self._after.waits_again(gang)


def _how_stopped(gang: PodGang) -> How:
    if gang.has_succeeded:
        return "succeeded"
    if not gang.failed_start:
        return "stopped"
    # Pods that were deleted and that nobody makes again are the end of it; if none was, it can be tried again.
    return "lost" if gang.member.remakes or not (gang.deleted or gang.has_failed) else "failed"


def is_ready(pod: Object) -> bool:
    """It waits to be bound, and may be."""
    return is_unbound(pod) and not is_gated(pod)


def id_of(gang: PodGang) -> str:
    assert gang.job is not None
    return gang.job.id


def cause_of(gang: PodGang) -> str:
    bad = sum(rank.end != SUCCEEDED for rank in gang.ranks)
    first = gang.first_end
    code = f", the first with exit code {first.exit_code}" if first and first.exit_code is not None else ""
    return f"{bad} of {len(gang.ranks)} pods failed{code}" + (f": {first.cause}" if first and first.cause else "")
