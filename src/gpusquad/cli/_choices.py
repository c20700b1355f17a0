"""The policies that the user chose: a mode, a mode with parts replaced, or several to compare."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from gpusquad.core.state.lanes import Lane
from gpusquad.core.state.policies import Policies
from gpusquad.model.errors import Invalid
from gpusquad.modes import Mode, load_lanes, load_mode
from gpusquad.modes.read import with_preemptible

PARTS = ("order", "plan", "place")
_PARAMETER = re.compile(r"\s*\w+\s*=")


@dataclass(frozen=True)
class Overrides:
    """Settings that replace those of a mode."""

    order: str | None = None
    plan: str | None = None
    place: str | None = None
    preempt: Literal["none", "priority", "order"] | None = None
    lanes: Path | None = None
    preemptible: str | None = None

    @property
    def parts(self) -> dict[str, str]:
        return {name: value for name in PARTS if (value := getattr(self, name)) is not None}

    def policies(self, mode: Mode) -> Policies:
        """Those of the mode, with the replaced parts."""
        return mode.policies(**self.parts, **self.surroundings(mode))

    def surroundings(self, mode: Mode) -> dict[str, Any]:
        changed: dict[str, Any] = {"lanes": self._lanes(mode)}
        if self.preempt is not None:
            changed["preemption"] = replace(mode.preemption, by=self.preempt)
        return changed

    def _lanes(self, mode: Mode) -> tuple[Lane, ...]:
        lanes = mode.lanes if self.lanes is None else load_lanes(self.lanes)
        if self.preemptible is None:
            return lanes
        names = [name.strip() for name in self.preemptible.split(",") if name.strip()]
        return with_preemptible(lanes, names, "preemptible")


@dataclass(frozen=True)
class PolicyChoice:
    """Policies with their label."""

    label: str
    policies: Policies
    mode: Mode
    overrides: Overrides = Overrides()

    def policies_of(self, mode: Mode) -> Policies:
        """Policies of a mode that an automatic mode chose, with the same parts replaced."""
        return self.overrides.policies(mode)


def choices(text: str, several: bool, overrides: Overrides) -> list[PolicyChoice]:
    """One mode, or with ``several`` a comma-separated list of modes and ``order+plan+place`` specs."""
    if not several:
        return [_mode(text, overrides)]
    found = [_entry(entry, overrides) for entry in split(text)]
    labels = [choice.label for choice in found]
    for label in labels:
        if labels.count(label) > 1:
            raise Invalid("compare", f"lists {label!r} twice")
    return found


def split(text: str) -> list[str]:
    """Split at commas, except between parameters of one policy: ``fifo+easy:a=1,b=2+spread,jct`` has two entries."""
    entries: list[str] = []
    for piece in text.split(","):
        if entries and _PARAMETER.match(piece):
            entries[-1] += "," + piece.strip()
        elif piece.strip():
            entries.append(piece.strip())
        else:
            raise Invalid("compare", f"has an empty entry in {text!r}", "write for example fifo,jct")
    return entries


def _entry(text: str, overrides: Overrides) -> PolicyChoice:
    if "+" not in text:
        mode = load_mode(text)
        return PolicyChoice(mode.name, overrides.policies(mode), mode, overrides)
    parts = [part.strip() for part in text.split("+")]
    if len(parts) > len(PARTS) or not all(parts):
        raise Invalid("compare", f"cannot read {text!r}", "write order+plan+place, for example fifo+easy+binpack")
    mode = load_mode("fifo")
    chosen = overrides.parts | dict(zip(PARTS, parts, strict=False))
    return PolicyChoice(text, mode.policies(**chosen, **overrides.surroundings(mode)), mode)


def _mode(name: str, overrides: Overrides) -> PolicyChoice:
    mode = load_mode(name)
    policies = overrides.policies(mode)
    label = "+".join(policies.names[part] for part in PARTS) if overrides.parts else mode.name
    return PolicyChoice(label, policies, mode, overrides)
