"""Formats and parses times: ``in 3 min``, ``2 h ago``, ``14:32``."""

from __future__ import annotations

import time
from typing import Literal

from gpusquad.model.errors import Invalid
from gpusquad.model.units import US_PER_S, parse_us

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
UNKNOWN = "unknown"


def span(seconds: float) -> str:
    """``45 s``, ``12 min``, ``2 h 5 min``, ``3 d 4 h``."""
    seconds = max(0.0, seconds)
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / MINUTE_S)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return _two(minutes // 60, "h", minutes % 60, "min")
    hours = round(seconds / HOUR_S)
    return _two(hours // 24, "d", hours % 24 if hours < 10 * 24 else 0, "h")


def relative(then_s: float, now_s: float) -> str:
    """``in 3 min``, ``2 h ago``, ``now``."""
    ahead_s = then_s - now_s
    if abs(ahead_s) < 1:
        return "now"
    return f"in {span(ahead_s)}" if ahead_s > 0 else f"{span(-ahead_s)} ago"


def clock(then_s: float, now_s: float) -> str:
    """Local time: ``14:32``, with the day if it is not today."""
    then, now = time.localtime(then_s), time.localtime(now_s)
    if then[:3] == now[:3]:
        return time.strftime("%H:%M", then)
    if abs(then_s - now_s) < 6 * DAY_S:
        return time.strftime("%a %H:%M", then)
    return time.strftime("%Y-%m-%d %H:%M", then)


def stamp(then_s: float) -> str:
    """Local date and time to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(then_s))


def between(soon_s: float, late_s: float) -> str:
    """A range of durations, or one duration if both ends read the same."""
    soon, late = span(soon_s), span(late_s)
    return soon if soon == late else f"{soon} to {late}"


def narrow_range(soon_s: float, late_s: float) -> str:
    """A range for a table: ``10–45 min``, ``45 min–2 h``, or one duration if both ends read the same."""
    soon, late = span(soon_s), span(late_s)
    if soon == late:
        return soon
    number, _, unit = soon.partition(" ")
    is_same_unit = " " not in unit and late.partition(" ")[2] == unit
    return f"{number}–{late}" if is_same_unit else f"{soon}–{late}"


def read_time(text: str, field: str, now_s: float, direction: Literal["past", "future"] = "past") -> float:
    """Parse a time relative to now (``7d``, ``90min``) or a date (``2026-03-01``, ``2026-03-01T14:30``)."""
    text = text.strip()
    if text == "now":
        return now_s
    if text[:4].isdigit() and text[4:5] == "-":
        return _read_date(text, field)
    try:
        ahead_s = parse_us(text, field) / US_PER_S
    except Invalid:
        raise Invalid(field, f"cannot read {text!r}", "write for example 7d, 90min or 2026-03-01T14:30") from None
    return now_s + ahead_s if direction == "future" else now_s - ahead_s


def _read_date(text: str, field: str) -> float:
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).timestamp()  # local time if there is no zone
    except (ValueError, OverflowError, OSError):
        raise Invalid(field, f"{text!r} is not a date", "write for example 2026-03-01 or 2026-03-01T14:30") from None


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit}" + (f" {small} {small_unit}" if small else "")
