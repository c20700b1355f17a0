"""What is done to pods: bound, marked, deleted, annotated. All but the last is tried until its outcome is known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from gpusquad.core.observed import TaskLocation
from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.parse.cards import hand_out
from gpusquad.engines.kubernetes.parse.pins import pin_text
from gpusquad.engines.kubernetes.sharing_annotator import told_at_binding
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.names import ATTEMPT, CARDS, JOB
from gpusquad.kube.objects import Object, annotations_of, is_leaving, name_of, namespace_of, uid_of
from gpusquad.model.sharing_params import SharingParams

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_MOST_TRIES = 8
_OVER = {"Complete": "succeeded", "Completed": "succeeded", "Succeeded": "succeeded", "Failed": "failed"}
_log = logging.getLogger(__name__)


class NotBound(Exception):
    """The pod is not where it should be, and nothing that was asked for can change that any more."""

    def __init__(self, message: str, pod_is_gone: bool = False) -> None:
        super().__init__(message)
        self.pod_is_gone = pod_is_gone
        """Deleted, or being deleted: whoever made it may make another."""


def binding_of(pod: Object, place: TaskLocation, job: str, attempt: int) -> Object:
    """Bound and pinned in one write: the server copies the annotations onto the pod."""
    annotations = {JOB: job, ATTEMPT: str(attempt)}
    if place.cards:
        annotations[CARDS] = pin_text(hand_out(pod, place.cards))
    annotations |= told_at_binding(pod, place.sharing_params or SharingParams())
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        # The uid is a precondition: another pod of the same name is not bound by mistake.
        "metadata": {"name": name_of(pod), "namespace": namespace_of(pod), "uid": uid_of(pod),
                     "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": place.node},
    }  # fmt: skip


def path_of(pod: Object) -> str:
    return f"/api/v1/namespaces/{namespace_of(pod)}/pods/{name_of(pod)}"


async def bind(
    api: AsyncKubeApi, pod: Object, place: TaskLocation, job: str, attempt: int, wanted: Callable[[], bool]
) -> None:
    """Returns when the pod is bound there; ``NotBound`` says why it is not. It goes on until one of both is certain.

    ``wanted`` is asked before a try. A try without an answer may have been done: then it is not enough to stop trying.
    """
    try:
        content = binding_of(pod, place, job, attempt)
    except ValueError as error:
        raise NotBound(f"pod {name_of(pod)} could not be bound to {place.node}: {error}") from error
    pause_s, may_be_done = _FIRST_PAUSE_S, False
    while wanted():
        try:
            await api.post(f"{path_of(pod)}/binding", content)
            return
        except ApiRefused as error:
            if not error.is_busy and error.status < 500:
                await _see_whether_bound(api, pod, place, job, f"could not be bound to {place.node}: {error.message}")
                return
            may_be_done = may_be_done or error.status >= 500
        except ApiUnreachable as error:
            may_be_done = may_be_done or error.may_be_done
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    if not may_be_done:
        raise NotBound(f"pod {name_of(pod)} is no longer to be bound")
    await _see_whether_bound(api, pod, place, job, "is no longer to be bound")


async def _see_whether_bound(api: AsyncKubeApi, pod: Object, place: TaskLocation, job: str, why: str) -> None:
    """By what the server has on record, however long it takes to answer."""
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            now = await api.get(path_of(pod))
        except ApiRefused as error:
            if error.is_missing:
                raise NotBound(f"pod {name_of(pod)} is gone", pod_is_gone=True) from error
            _log.info("cannot see whether pod %s is bound: %s", name_of(pod), error)
        except ApiUnreachable as error:
            _log.info("cannot see whether pod %s is bound: %s", name_of(pod), error)
        else:
            _check_bound(now, pod, place, job, why)
            return
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _check_bound(now: Object, pod: Object, place: TaskLocation, job: str, why: str) -> None:
    if uid_of(now) != uid_of(pod):
        raise NotBound(f"pod {name_of(pod)} is another one now", pod_is_gone=True)
    node = now["spec"].get("nodeName", "")
    if node != place.node or annotations_of(now).get(JOB) != job:
        where = f" (it is on {node}, by somebody else)" if node else ""
        raise NotBound(f"pod {name_of(pod)} {why}{where}", pod_is_gone=not node and is_leaving(now))


async def delete(api: AsyncKubeApi, pod: Object, grace_s: float | None) -> None:
    """Until it is on its way out, or gone."""
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid_of(pod)}}
    if grace_s is not None:
        options["gracePeriodSeconds"] = max(0, round(grace_s))
    # Its cards are not free before it is gone: a role that lacks the verb today may have it tomorrow.
    await _insist(lambda: api.delete(path_of(pod), options), f"delete pod {name_of(pod)}")


async def mark_disrupted(api: AsyncKubeApi, pod: Object, why: str) -> None:
    """Owners may forgive pods that a scheduler took away: this is how they know.

    A Job whose failure policy ignores the condition ``DisruptionTarget`` looks for it when the pod has ended, so it has
    to be there before the deletion (Kubernetes 1.37: pkg/controller/job, ``matchPodFailurePolicy``). The eviction API
    sets it too, but may refuse for the sake of a disruption budget, and then half of a gang would stay.

    Where it cannot be put there, the pod goes without: there may be a webhook that fails for this pod and no other.
    """
    condition = {
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": why[:1024],
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }  # fmt: skip
    content = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [condition]}}
    await _insist(
        lambda: api.patch(f"{path_of(pod)}/status", content, kind="strategic"),
        f"mark pod {name_of(pod)}",
        most_failures=_MOST_TRIES,
    )


async def annotate(api: AsyncKubeApi, pod: Object, said: Mapping[str, str | None]) -> str:
    """None takes an annotation away. Returns why it could not be done; empty: the pod says so now, or is gone.

    It gives up after a few tries: there may be a webhook that fails for this pod and no other.
    """
    content = {"metadata": {"uid": uid_of(pod), "annotations": dict(said)}}
    pause_s, why = _FIRST_PAUSE_S, ""
    for _ in range(_MOST_TRIES):
        try:
            await api.patch(path_of(pod), content, kind="merge")
            return ""
        except ApiRefused as error:
            if error.is_missing:
                return ""
            why = str(error)
            if not error.is_busy and error.status < 500 and error.status != 409:
                break
        except ApiUnreachable as error:
            why = str(error)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return why


async def _insist(ask: Callable[[], Awaitable[object]], what: str, *, most_failures: int | None = None) -> None:
    """Until it is done, or there is nothing to do it to. ``most_failures``: after so many it is left, and a refusal is
    taken for an answer. A server that is away or busy is waited for."""
    pause_s, told, failures = _FIRST_PAUSE_S, False, 0
    while True:
        try:
            await ask()
            return
        except ApiRefused as error:
            if error.status in (404, 409):
                return
            if not error.is_busy and error.status < 500:
                if not told:
                    _log.warning("could not %s: %s", what, error)
                if most_failures is not None:
                    return
                told, pause_s = True, _LONGEST_PAUSE_S
            else:
                failures += not error.is_busy
                if failures == most_failures:
                    _log.warning("could not %s: %s", what, error)
                    return
                _log.info("trying again to %s: %s", what, error)
        except ApiUnreachable as error:
            _log.info("trying again to %s: %s", what, error)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def verdict_on(owner: Object | None, uid: str) -> str:
    """Whether the owner of a gang without pods makes more of them."""
    if owner is None or owner["metadata"].get("uid") != uid:
        return "gone"
    if "deletionTimestamp" in owner["metadata"]:
        return "gone"
    for condition in (owner.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in _OVER:
            return _OVER[condition["type"]]
    return "goes on"
