"""Taints of nodes and tolerations of pods.

Only NoSchedule and NoExecute count; PreferNoSchedule is a preference and ignored. ``tolerationSeconds`` matters after
the placement only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpusquad.engines.kubernetes.filters.errors import UnsupportedRule
from gpusquad.kube.objects import Object

HARD_EFFECTS = ("NoExecute", "NoSchedule")


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True, order=True)
class Toleration:
    """Empty fields match all keys and all effects."""

    key: str = ""
    value: str | None = None
    """None: any value (operator Exists)."""
    effect: str = ""

    def covers(self, taint: Taint) -> bool:
        return (
            self.effect in ("", taint.effect)
            and self.key in ("", taint.key)
            and (self.value is None or self.value == taint.value)
        )


UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""Equivalent of a node's ``spec.unschedulable``, also before the taint itself has been added."""


def tolerations_of(pod: Object) -> tuple[Toleration, ...]:
    """Canonical, without tolerations that only matter for preferences."""
    raw = pod["spec"].get("tolerations") or ()
    found = {_toleration(item) for item in raw if item.get("effect", "") in ("", *HARD_EFFECTS)}
    return tuple(sorted(found, key=lambda one: (one.key, one.effect, one.value is not None, one.value or "")))


def taints_of(node: Object) -> tuple[Taint, ...]:
    """Taints with a hard effect, in the order of the node."""
    return tuple(
        Taint(item["key"], item.get("value") or "", item["effect"])
        for item in node.get("spec", {}).get("taints") or ()
        if item["effect"] in HARD_EFFECTS
    )


def is_unschedulable(node: Object) -> bool:
    return bool(node.get("spec", {}).get("unschedulable"))


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(toleration.covers(taint) for toleration in tolerations)


def first_untolerated(tolerations: Iterable[Toleration], taints: Iterable[Taint]) -> Taint | None:
    kept = tuple(tolerations)
    return next((taint for taint in taints if not tolerates(kept, taint)), None)


def _toleration(raw: Object) -> Toleration:
    operator = raw.get("operator") or "Equal"
    if operator not in ("Equal", "Exists"):
        raise UnsupportedRule(
            "spec.tolerations", f"operator {operator!r} compares numbers, which is not supported",
            "use Equal or Exists",
        )  # fmt: skip
    value = None if operator == "Exists" else raw.get("value") or ""
    return Toleration(raw.get("key") or "", value, raw.get("effect") or "")
