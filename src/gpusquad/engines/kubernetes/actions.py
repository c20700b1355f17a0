"""What is done to pods: bound, marked, deleted. Each is tried until its outcome is known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gpusquad.core.sightings import Place
from gpusquad.engines.kubernetes.api import Api, Refused, Unreachable
from gpusquad.engines.kubernetes.objects import CARDS, JOB, Object, controller_of, name_of, namespace_of, uid_of
from gpusquad.engines.kubernetes.reading.cards import hand_out
from gpusquad.engines.kubernetes.reading.pins import pin_text

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_OVER = {"Complete": "succeeded", "Completed": "succeeded", "Succeeded": "succeeded", "Failed": "failed"}
_log = logging.getLogger(__name__)


class NotBound(Exception):
    """The pod will not be where it should be."""


def binding_of(pod: Object, place: Place, job: str) -> Object:
    """Bound and pinned in one write: the server copies the annotations onto the pod."""
    annotations = {JOB: job}
    if place.cards:
        annotations[CARDS] = pin_text(hand_out(pod, place.cards))
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


async def bind(api: Api, pod: Object, place: Place, job: str, wanted: Callable[[], bool]) -> None:
    """Returns when the pod is bound there; ``NotBound`` says why it will not be. ``wanted`` is asked before a try."""
    content, pause_s = binding_of(pod, place, job), _FIRST_PAUSE_S
    path = f"{path_of(pod)}/binding"
    while wanted():
        try:
            await api.post(path, content)
            return
        except Refused as error:
            if error.is_conflict and await _is_bound_there(api, pod, place):
                return
            if not error.is_busy and error.status < 500:
                raise NotBound(f"pod {name_of(pod)} could not be bound to {place.node}: {error.message}") from error
        except Unreachable:
            pass  # it may have been done: the next try is answered with a conflict
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    raise NotBound(f"pod {name_of(pod)} is no longer to be bound")


async def _is_bound_there(api: Api, pod: Object, place: Place) -> bool:
    try:
        now = await api.get(path_of(pod))
    except (Refused, Unreachable):
        return False
    return uid_of(now) == uid_of(pod) and now["spec"].get("nodeName") == place.node


async def delete(api: Api, pod: Object, grace_s: float | None) -> None:
    """Until it is on its way out, or gone."""
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid_of(pod)}}
    if grace_s is not None:
        options["gracePeriodSeconds"] = max(0, round(grace_s))
    await _insist(lambda: api.delete(path_of(pod), options), f"delete pod {name_of(pod)}")


async def mark_disrupted(api: Api, pod: Object, why: str) -> None:
    """Owners may forgive pods that a scheduler took away: this is how they know."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": why[:1024]}
    content = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [condition]}}
    await _insist(lambda: api.patch(f"{path_of(pod)}/status", content, kind="strategic"), f"mark pod {name_of(pod)}")


async def _insist(ask: Callable, what: str) -> None:
    pause_s = _FIRST_PAUSE_S
    while True:
        try:
            await ask()
            return
        except Refused as error:
            if not error.is_busy and error.status < 500:
                if error.status not in (404, 409):
                    _log.warning("could not %s: %s", what, error)
                return
        except Unreachable as error:
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


def owner_of(pods) -> Object | None:
    """The reference to whoever makes these pods."""
    for pod in pods:
        reference = controller_of(pod)
        if reference is not None:
            return reference
    return None
