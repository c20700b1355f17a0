"""Numbers and names for people."""

from __future__ import annotations

from dataclasses import dataclass

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of time and its length in seconds."""

    name: str
    seconds: float


_SECOND, _MINUTE, _HOUR, _DAY = Unit("s", 1.0), Unit("min", 60.0), Unit("h", 3600.0), Unit("d", 86400.0)


def unit_for(seconds: float) -> Unit:
    """The unit in which a duration reads best."""
    for unit, below in ((_SECOND, 120.0), (_MINUTE, 2 * 3600.0), (_HOUR, 3 * 86400.0)):
        if abs(seconds) < below:
            return unit
    return _DAY


def axis_unit_for(seconds: float) -> Unit:
    """The unit for a time axis of this length: hours for anything between a few hours and a fortnight."""
    for unit, below in ((_SECOND, 300.0), (_MINUTE, 3 * 3600.0), (_HOUR, 14 * 86400.0)):
        if abs(seconds) < below:
            return unit
    return _DAY


def duration(seconds: float | None, unit: Unit | None = None) -> str:
    """``3.4 h``, in the given unit, so that a table row uses one unit."""
    if seconds is None:
        return NOTHING
    unit = unit or unit_for(seconds)
    return f"{number(seconds / unit.seconds)} {unit.name}"


def ratio(value: float | None) -> str:
    return NOTHING if value is None else f"{100 * value:.1f} %"


def number(value: float | None) -> str:
    """About three significant figures, without an exponent, thousands separated."""
    if value is None:
        return NOTHING
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 0.0995:
        return f"{value:.2f}"
    return f"{value:.2g}" if size >= 1e-4 else "0.00"


def count(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def plural(n: int, one: str, many: str = "") -> str:
    """``1 job``, ``2 jobs``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def plain(value: str, longest: int = 80) -> str:
    """An external name without terminal control characters, shortened to this length."""
    seen = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in value[: longest + 1])
    return seen if len(seen) <= longest else seen[: longest - 1] + "…"


def party(name: str) -> str:
    """A tenant or user; some traces leave the name out."""
    return plain(name) or "(no name)"
