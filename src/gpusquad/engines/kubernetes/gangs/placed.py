"""Gangs with a placement, from the decision until none of their pods is left on a node."""

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
from gpusquad.model.units import show_count

How = Literal["succeeded", "failed", "stopped", "lost"]


class GangReleased(Protocol):
    """Follow-up when a gang has left its nodes. The end of its attempt has been reported."""

    def gang_ended(self, gang: PodGang, how: str, cause: str) -> None:
        """The job has ended. A later gang of this name is another job."""
        ...

    def requeue(self, gang: PodGang) -> None: ...
    def split_off(self, gang: PodGang, pod: Object) -> None:
        """There is no rank for the pod."""
        ...


class PlacedGangs:
    """A gang starts completely or not at all. Its cards are free when none of its pods is left on its nodes."""

    def __init__(
        self, operations: ClusterOperations, request_of: Callable[[Object], Request], after: GangReleased
    ) -> None:
        self._operations = operations
        self._request_of = request_of
        self._after = after

    def review(self, gang: PodGang) -> None:
        gang.empty_ended_ranks()
        if gang.stopping:
            self._continue_stop(gang)
        elif gang.has_succeeded:
            self._end(gang, "succeeded", "")
        elif not gang.ranks_by_pod and not any(is_ready(pod) for pod in gang.pods.values()):
            self._emptied(gang)
        elif gang.has_failed and not gang.started and (gang.ranks_by_pod or not gang.is_recreated):
            end = gang.first_end
            self.fail_start(gang, f"a pod failed before all had started: {end.cause if end else 'unknown'}")
        else:
            self._fill(gang)

    def _fill(self, gang: PodGang) -> None:
        """Pending pods take the empty ranks."""
        assigned = gang.assign_ranks(self._requests(gang))
        if not gang.started and not gang.is_recreated and any(not rank.pod and not rank.end for rank in gang.ranks):
            for rank, _ in assigned:
                rank.binding = False
            self.fail_start(gang, "a pod was deleted before it was bound")
            return
        if not gang.ranks_by_pod and gang.has_ended:
            self._requeue_recreated(gang)  # the new pods have other requests
            return
        node_obstacle = (
            next((why for rank, pod in assigned if (why := self._operations.node_obstacle(rank, pod))), "")
            if not gang.is_checked
            else ""
        )
        gang.is_checked = False
        if node_obstacle:
            for rank, _ in assigned:
                rank.binding = False
            gang.failed_start = not gang.started
            self.stop(gang, node_obstacle, None)  # it starts again as a whole, elsewhere
            return
        for rank, pod in assigned:
            self._operations.bind(gang, rank, pod)
        for pod in gang.surplus_pods():
            self._after.split_off(gang, pod)
        if not gang.started and gang.all_run:
            gang.started, gang.refusals = True, 0
            self._operations.report(AttemptStarted(id_of(gang), gang.attempt, ()))

    def _requests(self, gang: PodGang) -> dict[str, Request]:
        result: dict[str, Request] = {}
        if len(gang.ranks_by_pod) < len(gang.ranks):
            for uid, pod in gang.pods.items():
                if uid not in gang.ranks_by_pod and is_ready(pod):
                    try:
                        result[uid] = self._request_of(pod)
                    except Invalid as error:
                        self._operations.report_unschedulable(gang, str(error))
        return result

    # -- its end -----------------------------------------------------------------------------------------------------

    def _emptied(self, gang: PodGang) -> None:
        if not gang.is_recreated:
            if all(rank.end in ("", DELETED) for rank in gang.ranks):
                self._end(gang, "stopped", "its pods were deleted", never_started=not gang.has_ended)
            else:
                self._end(gang, "failed", cause_of(gang))
        elif gang.live():
            self._requeue_recreated(gang)
        else:
            self._operations.check_owner(gang)

    def owner_checked(self, gang: PodGang, verdict: str) -> None:
        """For a gang without live pods: its owner has ended (``succeeded``, ``failed``, ``gone``) or is ``active``."""
        gang.empty_ended_ranks()
        if gang.stopping or gang.ranks_by_pod:
            return
        if verdict == "active":
            if gang.has_ended:
                self._requeue_recreated(gang)
        elif verdict == "gone":
            self._end(gang, "stopped", "its owner was deleted", never_started=not gang.has_ended)
        else:
            how: How = "succeeded" if verdict == "succeeded" else "failed"
            self._end(gang, how, "" if how == "succeeded" else cause_of(gang), never_started=not gang.has_ended)

    def _requeue_recreated(self, gang: PodGang) -> None:
        """The pods have ended and are recreated: the gang is requeued."""
        cause = "its pods ended and are recreated"
        self._report_end(gang, "lost", cause, never_started=not gang.has_ended)
        gang.unplace()
        self._after.requeue(gang)

    def _end(self, gang: PodGang, how: How, cause: str, *, never_started: bool = False) -> None:
        self._report_end(gang, how, cause, never_started=never_started)
        gang.unplace()
        self._after.gang_ended(gang, how, cause)

    def _report_end(self, gang: PodGang, how: How, cause: str, *, never_started: bool) -> None:
        never_started = never_started and not gang.started
        self._operations.report(AttemptEnded(
            id_of(gang), gang.attempt, how, cause, gang.first_end, never_started,
            failed_by_itself=how == "lost" and gang.has_failed_by_itself,
        ))  # fmt: skip

    # -- stopping ----------------------------------------------------------------------------------------------------

    def fail_start(self, gang: PodGang, why: str) -> None:
        """A gang starts completely or not at all: release the pods that did start."""
        gang.failed_start = True
        self.stop(gang, why, None)

    def stop(self, gang: PodGang, why: str, grace_s: float | None) -> None:
        gang.stopping, gang.grace_s = why or "it was stopped", grace_s
        gang.empty_ended_ranks()
        self._continue_stop(gang)

    def _continue_stop(self, gang: PodGang) -> None:
        """Ends when no pod is left on a node, including pods whose binding is in flight."""
        staying = gang.on_nodes()
        for pod in staying:
            if not is_leaving(pod) and uid_of(pod) not in gang.deleted:
                gang.deleted.add(uid_of(pod))
                self._operations.delete(pod, gang.stopping, gang.grace_s)
        if staying or any(rank.binding for rank in gang.ranks_by_pod.values()):
            return
        cause, how = gang.stopping, _how_stopped(gang)
        if how in ("failed", "succeeded"):
            self._end(gang, how, cause if how == "failed" else "", never_started=gang.failed_start)
            return
        self._report_end(gang, how, cause, never_started=gang.failed_start)
        gang.unplace()
        self._after.requeue(gang)


def _how_stopped(gang: PodGang) -> How:
    if gang.has_succeeded:
        return "succeeded"
    if not gang.failed_start:
        return "stopped"
    # If pods were deleted and are not recreated, the job has failed. If none was deleted, it can be tried again.
    return "lost" if gang.member.recreates or not (gang.deleted or gang.has_failed) else "failed"


def is_ready(pod: Object) -> bool:
    """Unbound and not gated."""
    return is_unbound(pod) and not is_gated(pod)


def id_of(gang: PodGang) -> str:
    assert gang.job is not None
    return gang.job.id


def cause_of(gang: PodGang) -> str:
    bad = sum(rank.end != SUCCEEDED for rank in gang.ranks)
    first = gang.first_end
    code = f", the first with exit code {first.exit_code}" if first and first.exit_code is not None else ""
    pods = show_count(len(gang.ranks), "pod")
    return f"{bad} of {pods} failed{code}" + (f": {first.cause}" if first and first.cause else "")
