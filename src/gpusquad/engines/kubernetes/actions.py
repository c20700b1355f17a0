"""Writes to pods: bind, mark, delete, annotate. All but annotations are retried until their outcome is known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from gpusquad.core.observed import TaskLocation
from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.parse.cards import assign_cards
from gpusquad.engines.kubernetes.parse.pins import pin_text
from gpusquad.engines.kubernetes.sharing_annotator import binding_annotations, lowered_priority
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.names import ATTEMPT, CARDS, JOB, KNOWN
from gpusquad.kube.objects import Object, annotations_of, is_leaving, name_of, namespace_of, uid_of
from gpusquad.model.sharing_params import SharingParams

_MIN_PAUSE_S, _MAX_PAUSE_S = 0.1, 5.0
_MAX_TRIES = 8
_OVER = {"Complete": "succeeded", "Completed": "succeeded", "Succeeded": "succeeded", "Failed": "failed"}
_log = logging.getLogger(__name__)


class NotBound(Exception):
    """The pod is not bound to its node, and no pending request can change that."""

    def __init__(self, message: str, pod_is_gone: bool = False) -> None:
        super().__init__(message)
        self.pod_is_gone = pod_is_gone
        """Deleted, or being deleted. Its owner may create another pod."""


def binding_of(pod: Object, place: TaskLocation, job: str, attempt: int, rates_name: str = KNOWN) -> Object:
    """Binds and pins in one write: the server copies the annotations to the pod."""
    annotations = {JOB: job, ATTEMPT: str(attempt)}
    if place.cards:
        annotations[CARDS] = pin_text(assign_cards(pod, place.cards))
    annotations |= binding_annotations(pod, place.sharing_params or SharingParams(), rates_name)
    if place.sharing_params is not None:
        annotations |= lowered_priority(pod, place.sharing_params)
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        # The UID is a precondition, so that another pod of the same name is not bound by mistake.
        "metadata": {"name": name_of(pod), "namespace": namespace_of(pod), "uid": uid_of(pod),
                     "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": place.node},
    }  # fmt: skip


def path_of(pod: Object) -> str:
    return f"/api/v1/namespaces/{namespace_of(pod)}/pods/{name_of(pod)}"


async def bind(
    api: AsyncKubeApi,
    pod: Object,
    place: TaskLocation,
    job: str,
    attempt: int,
    wanted: Callable[[], bool],
    rates_name: str = KNOWN,
) -> None:
    """Returns when the pod is bound; raises ``NotBound`` if it is not. Retries until one of the two is certain.

    ``wanted`` is checked before each try. A try without an answer may have succeeded; then the pod has to be read.
    """
    try:
        content = binding_of(pod, place, job, attempt, rates_name)
    except ValueError as error:
        raise NotBound(f"pod {name_of(pod)} could not be bound to {place.node}: {error}") from error
    pause_s, may_be_done = _MIN_PAUSE_S, False
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
        pause_s = min(2 * pause_s, _MAX_PAUSE_S)
    if not may_be_done:
        raise NotBound(f"pod {name_of(pod)} is no longer to be bound")
    await _see_whether_bound(api, pod, place, job, "is no longer to be bound")


async def _see_whether_bound(api: AsyncKubeApi, pod: Object, place: TaskLocation, job: str, why: str) -> None:
    """Decides by what the server has stored, and retries until the server answers."""
    pause_s = _MIN_PAUSE_S
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
        pause_s = min(2 * pause_s, _MAX_PAUSE_S)


def _check_bound(now: Object, pod: Object, place: TaskLocation, job: str, why: str) -> None:
    if uid_of(now) != uid_of(pod):
        raise NotBound(f"pod {name_of(pod)} was replaced by another pod of that name", pod_is_gone=True)
    node = now["spec"].get("nodeName", "")
    if node != place.node or annotations_of(now).get(JOB) != job:
        where = f" (another scheduler bound it to {node})" if node else ""
        raise NotBound(f"pod {name_of(pod)} {why}{where}", pod_is_gone=not node and is_leaving(now))


async def delete(api: AsyncKubeApi, pod: Object, grace_s: float | None) -> None:
    """Retries until the pod is being deleted, or gone."""
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid_of(pod)}}
    if grace_s is not None:
        options["gracePeriodSeconds"] = max(0, round(grace_s))
    # Without a limit, because its cards are not free before it is gone. A missing permission may be granted later.
    await _retry_until_certain(lambda: api.delete(path_of(pod), options), f"delete pod {name_of(pod)}")


async def mark_disrupted(api: AsyncKubeApi, pod: Object, why: str) -> None:
    """Marks a pod as disrupted by the scheduler, so that its owner need not count it as a failure.

    A Job whose failure policy ignores the condition ``DisruptionTarget`` checks for it when the pod has ended, so it
    must be set before the deletion (Kubernetes 1.37: pkg/controller/job, ``matchPodFailurePolicy``). The eviction API
    sets it too, but a disruption budget may block it, and then half of a gang would stay.

    If the condition cannot be set, the pod is deleted without it: a webhook may fail for this pod only.
    """
    condition = {
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": why[:1024],
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }  # fmt: skip
    content = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [condition]}}
    await _retry_until_certain(
        lambda: api.patch(f"{path_of(pod)}/status", content, kind="strategic"),
        f"mark pod {name_of(pod)}",
        max_failures=_MAX_TRIES,
    )


async def annotate(api: AsyncKubeApi, pod: Object, annotations: Mapping[str, str | None]) -> str:
    """None removes an annotation. Returns why it failed; empty: done, or the pod is gone.

    It gives up after ``_MAX_TRIES`` tries: a webhook may fail for this pod only.
    """
    content = {"metadata": {"uid": uid_of(pod), "annotations": dict(annotations)}}
    pause_s, why = _MIN_PAUSE_S, ""
    for _ in range(_MAX_TRIES):
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
        pause_s = min(2 * pause_s, _MAX_PAUSE_S)
    return why


async def _retry_until_certain(
    request: Callable[[], Awaitable[object]], what: str, *, max_failures: int | None = None
) -> None:
    """Retries until it is done or the pod is gone. With ``max_failures`` it gives up after that many failures, or after
    the first refusal. An unreachable or busy server does not count as a failure."""
    pause_s, is_logged, failures = _MIN_PAUSE_S, False, 0
    while True:
        try:
            await request()
            return
        except ApiRefused as error:
            if error.status in (404, 409):
                return
            if not error.is_busy and error.status < 500:
                if not is_logged:
                    _log.warning("cannot %s: %s", what, error)
                if max_failures is not None:
                    return
                is_logged, pause_s = True, _MAX_PAUSE_S
            else:
                failures += not error.is_busy
                if failures == max_failures:
                    _log.warning("cannot %s: %s", what, error)
                    return
                _log.info("retrying to %s: %s", what, error)
        except ApiUnreachable as error:
            _log.info("retrying to %s: %s", what, error)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _MAX_PAUSE_S)


def verdict_on(owner: Object | None, uid: str) -> str:
    """Whether the owner of a gang without pods will create more."""
    if owner is None or owner["metadata"].get("uid") != uid:
        return "gone"
    if "deletionTimestamp" in owner["metadata"]:
        return "gone"
    for condition in (owner.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in _OVER:
            return _OVER[condition["type"]]
    return "active"
