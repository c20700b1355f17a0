"""Converts the pods of a group into a job.

A gang consists of the number of pods that it needs of each role, in the order of their indexes, out of those that can
still run. A pod that the job has already keeps its rank. Further pods are *surplus*: each is a job of its own
(``groups.single_membership``), so that a larger replica count or the workers of an autoscaler never delay the gang, and
no pod waits indefinitely. Pods that have ended or are being deleted do not count. Pods of the group that another
scheduler places count as present but are not part of the job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpusquad.engines.kubernetes.parse.groups import Membership, RoleSize
from gpusquad.engines.kubernetes.parse.ids import job_id
from gpusquad.engines.kubernetes.parse.job_attributes import (
    app_of,
    checkpoint_of,
    cluster_priority_of,
    command_of,
    created_us,
    estimate_us_of,
    job_annotations,
    limit_us_of,
    priority_of,
    slo_of,
    user_of,
)
from gpusquad.engines.kubernetes.parse.requests import is_gated, request_of_pod
from gpusquad.engines.kubernetes.parse.roles import place_of, role_of
from gpusquad.kube.annotations import MAX_TEXT, text_of
from gpusquad.kube.errors import UnsupportedField
from gpusquad.kube.names import JOB, LANE, QUEUE, SCHEDULER
from gpusquad.kube.objects import Object, annotations_of, is_leaving, name_of, namespace_of, uid_of
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.priority import DEFAULT_PRIORITY

MAX_ROLES = 256
ANY = ""
"""Matches every role, if it does not matter which pods belong to a gang."""


@dataclass(frozen=True, slots=True)
class CompleteGang:
    """Task ``i`` of the job, counted through its roles in order, is ``members[i]``."""

    job: Job
    members: tuple[Object, ...]
    surplus: tuple[Object, ...] = ()
    """Pods that are jobs of their own."""
    cluster_priority: str = DEFAULT_PRIORITY
    """Priority class of its pods without our annotation, as the cluster grants it."""


@dataclass(frozen=True, slots=True)
class IncompleteGang:
    """Some of its pods are missing."""

    have: int
    need: int | None
    """None: not known yet."""
    waits_for: str
    surplus: tuple[Object, ...] = ()
    """Pods that are jobs of their own, if another scheduler has placed the whole gang."""


def gang_of(
    membership: Membership,
    pods: Iterable[Object],
    *,
    request_of: Callable[[Object], Request] = request_of_pod,
    held: Collection[str] = frozenset(),
    incarnation: int = 0,
    scheduler: str = SCHEDULER,
) -> CompleteGang | IncompleteGang | Invalid:
    """The job of a group's pods; or what is missing; or why it cannot be a job, as an error that was not raised.

    ``pods`` are all known pods of the group. ``request_of`` returns a pod's request with its allowed nodes. ``held``
    are the UIDs of pods that the job has already. ``incarnation``: see ``job_id``.
    """
    usable = [pod for pod in pods if can_run(pod)]
    if membership.size is None:
        return IncompleteGang(len(usable), None, membership.waits_for)
    name = job_id(membership.key, incarnation)
    ours = [pod for pod in usable if pod["spec"].get("schedulerName") == scheduler]
    ready = [pod for pod in ours if not is_gated(pod)]
    needed = _needed(membership, (pod for pod in usable if pod["spec"].get("schedulerName") != scheduler))
    members, surplus = _choose(ready, needed, lambda pod: _is_held(pod, name, held))
    total = sum(needed.values())
    if total == 0 or len(members) < total:
        waits_for = _missing(membership, needed, members, len(ours) - len(ready))
        return IncompleteGang(len(members), total, waits_for, () if total else surplus)
    try:
        return _complete(name, membership, members, surplus, request_of)
    except Invalid as error:
        return error


def can_run(pod: Object) -> bool:
    """Neither ended nor being deleted."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed") and not is_leaving(pod)


def _needed(membership: Membership, elsewhere: Iterable[Object]) -> dict[str, int]:
    """Number of pods of each role that this scheduler has to place."""
    parts = membership.parts or (RoleSize(ANY, membership.least),)
    placed = Counter(role_of(pod) if membership.parts else ANY for pod in elsewhere)
    return {part.role: max(0, part.count - placed[part.role]) for part in parts}


def _choose(
    ready: Sequence[Object], needed: dict[str, int], is_held: Callable[[Object], bool | None]
) -> tuple[tuple[Object, ...], tuple[Object, ...]]:
    """Members and surplus, each in order."""
    left = dict(needed)
    members: list[Object] = []
    surplus: list[Object] = []
    for pod in sorted(ready, key=lambda pod: (not is_held(pod), place_of(pod))):
        role = ANY if ANY in left else role_of(pod)
        if left.get(role, 0) and is_held(pod) is not None:
            left[role] -= 1
            members.append(pod)
        else:
            surplus.append(pod)
    return tuple(sorted(members, key=place_of)), tuple(sorted(surplus, key=place_of))


def _is_held(pod: Object, job: str, held: Collection[str]) -> bool | None:
    """Whether the job has the pod already. None: another job has it."""
    if uid_of(pod) in held:
        return True
    owner = annotations_of(pod).get(JOB, "") if pod["spec"].get("nodeName") else ""
    return (True if owner == job else None) if owner else False


def _missing(membership: Membership, needed: dict[str, int], members: Sequence[Object], gated: int) -> str:
    if not sum(needed.values()):
        return "nothing: another scheduler has placed the gang"
    have = Counter(ANY if ANY in needed else role_of(pod) for pod in members)
    parts = [
        f"{count - have[role]} of {count} {f'{role} ' if role else ''}pods"
        for role, count in needed.items()
        if have[role] < count
    ]
    key = membership.key
    held_back = f"; {gated} held back by scheduling gates" if gated else ""
    return f"{', '.join(parts)} of {key.kind} {key.namespace}/{key.name}{held_back}"


def _complete(
    name: str,
    membership: Membership,
    members: Sequence[Object],
    surplus: tuple[Object, ...],
    request_of: Callable[[Object], Request],
) -> CompleteGang:
    by_role = _by_role(members, request_of)
    in_order = tuple(pod for pods in by_role.values() for pod in pods)
    job = _job(name, membership, in_order, _roles(by_role))
    return CompleteGang(job, in_order, surplus, cluster_priority_of(membership, in_order))


def _job(name: str, membership: Membership, members: Sequence[Object], roles: tuple[Role, ...]) -> Job:
    annotations = job_annotations(membership, members)
    submitted_us = min(map(created_us, members))
    return Job(
        id=name,
        roles=roles,
        submitted_us=submitted_us,
        name=membership.key.name[:MAX_TEXT],
        tenant=namespace_of(members[0]),
        user=user_of(annotations, members),
        queue=text_of(annotations, QUEUE),
        priority=priority_of(membership, annotations, members),
        lane=text_of(annotations, LANE),
        app=app_of(annotations, members),
        estimate_us=estimate_us_of(annotations),
        limit_us=limit_us_of(annotations, members),
        slo=slo_of(annotations, submitted_us),
        checkpoint=checkpoint_of(membership, annotations, members),
        command=command_of(members),
    )


def _by_role(
    members: Sequence[Object], request_of: Callable[[Object], Request]
) -> dict[tuple[str, Request], list[Object]]:
    """Pods with the same role and request, in order."""
    result: dict[tuple[str, Request], list[Object]] = {}
    for pod in members:
        result.setdefault((role_of(pod), _pod_request(pod, request_of)), []).append(pod)
    if len(result) > MAX_ROLES:
        raise UnsupportedField("pods", f"have {len(result)} different requests", f"use at most {MAX_ROLES}")
    return result


def _roles(by_role: Mapping[tuple[str, Request], Sequence[Object]]) -> tuple[Role, ...]:
    """If a role has several requests, the second is named ``worker-2``, and so on."""
    names = {role for role, _ in by_role}
    roles: list[Role] = []
    used: set[str] = set()
    for (role, request), pods in by_role.items():
        name, number = role, 1
        while name in used or (name in names and name != role):
            number += 1
            name = f"{role}-{number}"
        used.add(name)
        roles.append(Role(name, len(pods), request))
    return tuple(roles)


def _pod_request(pod: Object, request_of: Callable[[Object], Request]) -> Request:
    try:
        return request_of(pod)
    except Invalid as error:
        raise type(error)(f"pod {name_of(pod)}: {error.field}", error.problem, error.cure) from None
