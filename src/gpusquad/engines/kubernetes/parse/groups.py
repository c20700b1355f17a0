"""The group that a pod belongs to, and its size."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.kube.annotations import MAX_COUNT
from gpusquad.kube.errors import UnsupportedField
from gpusquad.kube.names import PREFIX
from gpusquad.kube.objects import Object, annotations_of, controller_of, name_of, namespace_of, uid_of

ALONE = "Pod"
"""Kind in the key of a group of one pod."""


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Identifies a group. ``uid`` is empty while the group's object is not known: such a key is provisional."""

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class RoleSize:
    """Number of pods of one role."""

    role: str
    count: int


@dataclass(frozen=True, slots=True)
class Membership:
    """A pod's group, as the pod describes it. Equal for all pods of a group, except perhaps ``recreates``."""

    key: GroupKey
    size: int | None
    """Number of pods that the owner intends. None: not known yet, see ``waits_for``."""
    least: int
    """Number of pods that start together or not at all. Each other pod is a job of its own."""
    recreates: bool
    """An owner recreates deleted pods and does not count the deletion as a failure of the whole job."""
    waits_for: str = ""
    """What must exist before the size is known, as text for users."""
    parts: tuple[RoleSize, ...] = ()
    """Number of pods of each role in the gang, ``least`` in all. Empty: any of the group's pods."""
    priority: int | None = None
    """Priority of the group, if it has one."""
    owner_uid: str = ""
    """Controller that recreates the pod if it is deleted. A single pod is recreated with another UID."""
    annotations: tuple[tuple[str, str], ...] = ()
    """gpusquad annotations of the group's object: defaults for the pods."""


def alone(pod: Object, *, recreates: bool, annotations: tuple[tuple[str, str], ...] = ()) -> Membership:
    """A gang of one pod."""
    key = GroupKey(ALONE, namespace_of(pod), name_of(pod), uid_of(pod))
    return Membership(key, 1, 1, recreates, owner_uid=controller_uid(pod), annotations=annotations)


def single_membership(membership: Membership, pod: Object) -> Membership:
    """A surplus pod of its group as a job of its own."""
    return alone(pod, recreates=membership.recreates, annotations=membership.annotations)


def of_object(
    pod: Object,
    item: Object,
    *,
    kind: str,
    least: int,
    recreates: bool,
    size: int | None = None,
    parts: tuple[RoleSize, ...] = (),
    within: str = "",
    priority: int | None = None,
) -> Membership:
    """The group of an object such as a Job, or the part of it named ``within``. ``size`` is ``least`` if not given."""
    if max(least, size or 0) > MAX_COUNT:
        raise UnsupportedField(f"{kind} {name_of(item)}", f"has more than {MAX_COUNT} pods")
    suffix = f"/{within}" if within else ""
    return Membership(
        GroupKey(kind, namespace_of(pod), name_of(item) + suffix, uid_of(item) + suffix),
        least if size is None else size,
        least,
        recreates,
        parts=tuple(part for part in parts if part.count),
        priority=priority,
        owner_uid=controller_uid(pod),
        annotations=gpusquad_annotations(item),
    )


def of_name(pod: Object, kind: str, name: str, size: int, *, recreates: bool) -> Membership:
    """A group that is only a name on its pods. It has no UID, so its name identifies it."""
    namespace = namespace_of(pod)
    key = GroupKey(kind, namespace, name, f"{kind}:{namespace}/{name}")
    return Membership(key, size, size, recreates, owner_uid=controller_uid(pod))


def gpusquad_annotations(item: Object) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, text) for name, text in annotations_of(item).items() if name.startswith(PREFIX)))


def controller_uid(pod: Object) -> str:
    controller = controller_of(pod)
    return "" if controller is None else controller.get("uid", "")


def first_pods(parts: tuple[RoleSize, ...], least: int) -> tuple[RoleSize, ...]:
    """The first ``least`` pods, in the order of ``parts``."""
    result: list[RoleSize] = []
    for part in parts:
        count = min(part.count, least - sum(kept.count for kept in result))
        if count > 0:
            result.append(RoleSize(part.role, count))
    return tuple(result)
