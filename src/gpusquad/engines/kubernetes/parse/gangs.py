"""Pods of one group to one job.

Which pods a gang is made of: of those that can still run, so many as it needs of each role, in the order of their
indexes. A pod that the job already has keeps its place, whoever comes later. Pods beyond that are *surplus*: each is a
job of its own (``groups.by_itself``), so a larger replica count or an autoscaler's workers never hold the gang up, and
no pod waits for ever. Pods of finished attempts (succeeded, failed, being deleted) count for nothing. Pods of the group
that another scheduler places count as there, and are no part of the job.
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
    command_of,
    created_us,
    estimate_us_of,
    limit_us_of,
    priority_of,
    said_by_all,
    slo_of,
    user_of,
)
from gpusquad.engines.kubernetes.parse.requests import ask_of, is_gated
from gpusquad.engines.kubernetes.parse.roles import place_of, role_of
from gpusquad.kube.annotations import MOST_TEXT, text_of
from gpusquad.kube.errors import UnsupportedField
from gpusquad.kube.names import JOB, LANE, QUEUE, SCHEDULER
from gpusquad.kube.objects import Object, annotations_of, is_leaving, name_of, namespace_of, uid_of
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request, Role

MOST_ROLES = 256
ANY = ""
"""Stands for every role, where it does not matter which pods a gang is made of."""


@dataclass(frozen=True, slots=True)
class CompleteGang:
    """A whole gang. Task ``i`` of the job, counted through its roles in order, is ``members[i]``."""

    job: Job
    members: tuple[Object, ...]
    surplus: tuple[Object, ...] = ()
    """Pods that come alone."""


@dataclass(frozen=True, slots=True)
class IncompleteGang:
    """Not all of its pods are there."""

    have: int
    need: int | None
    """None: not known yet."""
    waits_for: str
    surplus: tuple[Object, ...] = ()
    """Pods that come alone, where others have placed the whole gang already."""


def gang_of(
    membership: Membership,
    pods: Iterable[Object],
    *,
    ask: Callable[[Object], Request] = ask_of,
    held: Collection[str] = frozenset(),
    life: int = 0,
    scheduler: str = SCHEDULER,
) -> CompleteGang | IncompleteGang | Invalid:
    """The job that a group's pods are; what is missing; or why it cannot be a job, as an error that was not raised.

    ``pods`` are all of the group's that the caller knows. ``ask`` tells what one asks for, where it may run included.
    ``held`` are the uids of pods that the job already has. ``life``: see ``job_id``.
    """
    able = [pod for pod in pods if can_run(pod)]
    if membership.size is None:
        return IncompleteGang(len(able), None, membership.waits_for)
    name = job_id(membership.key, life)
    ours = [pod for pod in able if pod["spec"].get("schedulerName") == scheduler]
    ready = [pod for pod in ours if not is_gated(pod)]
    needed = _needed(membership, (pod for pod in able if pod["spec"].get("schedulerName") != scheduler))
    members, surplus = _choose(ready, needed, lambda pod: _is_held(pod, name, held))
    total = sum(needed.values())
    if total == 0 or len(members) < total:
        waits_for = _missing(membership, needed, members, len(ours) - len(ready))
        return IncompleteGang(len(members), total, waits_for, () if total else surplus)
    try:
        return _formed(name, membership, members, surplus, ask)
    except Invalid as error:
        return error


def can_run(pod: Object) -> bool:
    """It has not ended, and nobody has ended it."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed") and not is_leaving(pod)


def _needed(membership: Membership, elsewhere: Iterable[Object]) -> dict[str, int]:
    """How many pods of each role are for us to place."""
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
    """Whether the job has it already. None: another job has."""
    if uid_of(pod) in held:
        return True
    owner = annotations_of(pod).get(JOB, "") if pod["spec"].get("nodeName") else ""
    return (True if owner == job else None) if owner else False


def _missing(membership: Membership, needed: dict[str, int], members: Sequence[Object], gated: int) -> str:
    if not sum(needed.values()):
        return "nothing: another scheduler has placed the gang"
    have = Counter(ANY if ANY in needed else role_of(pod) for pod in members)
    words = [
        f"{count - have[role]} of {count} {f'{role} ' if role else ''}pods"
        for role, count in needed.items()
        if have[role] < count
    ]
    key = membership.key
    held_back = f"; {gated} held back by scheduling gates" if gated else ""
    return f"{', '.join(words)} of {key.kind} {key.namespace}/{key.name}{held_back}"


def _formed(
    name: str,
    membership: Membership,
    members: Sequence[Object],
    surplus: tuple[Object, ...],
    ask: Callable[[Object], Request],
) -> CompleteGang:
    by_role = _by_role(members, ask)
    in_order = tuple(pod for pods in by_role.values() for pod in pods)
    return CompleteGang(_job(name, membership, in_order, _roles(by_role)), in_order, surplus)


def _job(name: str, membership: Membership, members: Sequence[Object], roles: tuple[Role, ...]) -> Job:
    said = said_by_all(membership, members)
    submitted_us = min(map(created_us, members))
    return Job(
        id=name,
        roles=roles,
        submitted_us=submitted_us,
        name=membership.key.name[:MOST_TEXT],
        tenant=namespace_of(members[0]),
        user=user_of(said, members),
        queue=text_of(said, QUEUE),
        priority=priority_of(membership, said, members),
        lane=text_of(said, LANE),
        app=app_of(said, members),
        estimate_us=estimate_us_of(said),
        limit_us=limit_us_of(said, members),
        slo=slo_of(said, submitted_us),
        checkpoint=checkpoint_of(membership, said, members),
        command=command_of(members),
    )


def _by_role(members: Sequence[Object], ask: Callable[[Object], Request]) -> dict[tuple[str, Request], list[Object]]:
    """Those who play the same part and ask for the same, in order."""
    result: dict[tuple[str, Request], list[Object]] = {}
    for pod in members:
        result.setdefault((role_of(pod), _asked(pod, ask)), []).append(pod)
    if len(result) > MOST_ROLES:
        raise UnsupportedField("pods", f"ask for {len(result)} different things", f"keep it to {MOST_ROLES}")
    return result


def _roles(by_role: Mapping[tuple[str, Request], Sequence[Object]]) -> tuple[Role, ...]:
    """Of one part with several requests, the second is called ``worker-2``, and so on."""
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


def _asked(pod: Object, ask: Callable[[Object], Request]) -> Request:
    try:
        return ask(pod)
    except Invalid as error:
        raise type(error)(f"pod {name_of(pod)}: {error.field}", error.problem, error.cure) from None
