"""To which group a pod belongs, and how large that is."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.kube.annotations import MOST_COUNT
from gpusquad.kube.errors import UnsupportedField
from gpusquad.kube.names import PREFIX
from gpusquad.kube.objects import Object, annotations_of, controller_of, name_of, namespace_of, uid_of

ALONE = "Pod"


@dataclass(frozen=True, slots=True)
class GroupKey:
    """Names a group. ``uid`` is empty while the object it is read from is not known: such a key is provisional."""

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class RoleSize:
    """So many pods of one role."""

    role: str
    count: int


@dataclass(frozen=True, slots=True)
class Membership:
    """What a pod says of its group. All pods of a group say the same, ``remakes`` perhaps apart."""

    key: GroupKey
    size: int | None
    """How many pods its maker means to have. None: not known yet, see ``waits_for``."""
    least: int
    """That many start together, or none does. The others, if any, come alone, each as a job of its own."""
    remakes: bool
    """An owner makes deleted pods again, and does not take the deletion for a failure of the whole."""
    waits_for: str = ""
    """In words: what has to be known first."""
    parts: tuple[RoleSize, ...] = ()
    """Whom the ``least`` have to be, by role. Empty: any of the group's pods."""
    priority: int | None = None
    """Of the group, where it has one of its own."""
    owner_uid: str = ""
    """Who makes this pod anew if it is deleted; a pod that comes alone comes back under another uid."""
    said: tuple[tuple[str, str], ...] = ()
    """Our annotations on the group's object: they hold for pods that do not say otherwise."""


def alone(pod: Object, *, remakes: bool, said: tuple[tuple[str, str], ...] = ()) -> Membership:
    """A gang of one: nobody waits for this pod."""
    key = GroupKey(ALONE, namespace_of(pod), name_of(pod), uid_of(pod))
    return Membership(key, 1, 1, remakes, owner_uid=maker_of(pod), said=said)


def by_itself(membership: Membership, pod: Object) -> Membership:
    """A pod that its group has no place for, or no need of: it comes as a job of its own."""
    return alone(pod, remakes=membership.remakes, said=membership.said)


def of_object(
    pod: Object,
    item: Object,
    *,
    kind: str,
    least: int,
    remakes: bool,
    size: int | None = None,
    parts: tuple[RoleSize, ...] = (),
    within: str = "",
    priority: int | None = None,
) -> Membership:
    """The group that an object stands for, or the part of it that is called ``within``."""
    if max(least, size or 0) > MOST_COUNT:
        raise UnsupportedField(f"{kind} {name_of(item)}", f"has more than {MOST_COUNT} pods")
    suffix = f"/{within}" if within else ""
    return Membership(
        GroupKey(kind, namespace_of(pod), name_of(item) + suffix, uid_of(item) + suffix),
        least if size is None else size,
        least,
        remakes,
        parts=tuple(part for part in parts if part.count),
        priority=priority,
        owner_uid=maker_of(pod),
        said=said_by(item),
    )


def of_name(pod: Object, kind: str, name: str, size: int, *, remakes: bool) -> Membership:
    """A group that is only a name on its pods. It has no uid, so its name stands for it."""
    namespace = namespace_of(pod)
    key = GroupKey(kind, namespace, name, f"{kind}:{namespace}/{name}")
    return Membership(key, size, size, remakes, owner_uid=maker_of(pod))


def said_by(item: Object) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, text) for name, text in annotations_of(item).items() if name.startswith(PREFIX)))


def maker_of(pod: Object) -> str:
    controller = controller_of(pod)
    return "" if controller is None else controller.get("uid", "")


def cut(parts: tuple[RoleSize, ...], least: int) -> tuple[RoleSize, ...]:
    """The first ``least`` of them, in order."""
    result: list[RoleSize] = []
    for part in parts:
        count = min(part.count, least - sum(kept.count for kept in result))
        if count > 0:
            result.append(RoleSize(part.role, count))
    return tuple(result)
