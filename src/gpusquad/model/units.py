"""Converts text and floats of users to integers: bytes, microseconds and thousandths.

The core uses integers so that sums of shares and times are exact.
"""

from __future__ import annotations

import math
import re

from gpusquad.model.errors import Invalid

US_PER_S = 1_000_000
WHOLE_MILLI = 1000
"""One whole card in thousandths."""

_BYTES = {
    "": 1, "b": 1,
    "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9, "t": 10**12, "tb": 10**12,
    "ki": 2**10, "kib": 2**10, "mi": 2**20, "mib": 2**20, "gi": 2**30, "gib": 2**30, "ti": 2**40, "tib": 2**40,
}  # fmt: skip
_SECONDS = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER_AND_UNIT = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z%]*)\s*")
_CENTURY_US = 100 * 365 * 86_400 * US_PER_S
_LARGEST = 2**53  # above this a float no longer holds every whole number


def number(value: object, field: str, *, low: float | None = 0.0, high: float = _LARGEST) -> float:
    """A finite number within bounds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Invalid(field, f"expected a number, got {value!r}")
    if not _is_finite(value):
        raise Invalid(field, f"{str(value)[:40]} is not a finite number")
    if low is not None and value < low:
        raise Invalid(field, f"{value!r} is below {low:g}")
    if value > high:
        raise Invalid(field, f"{value!r} is above {high:g}")
    return float(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False


def whole(value: object, field: str, *, low: int = 0, high: int = _LARGEST) -> int:
    """A whole number within bounds."""
    result = number(value, field, low=low, high=high)
    if result != int(result):
        raise Invalid(field, f"{value!r} is not a whole number")
    return int(result)


def _scaled(value: object, field: str, units: dict[str, float], example: str) -> float:
    if not isinstance(value, str):
        return number(value, field)
    match = _NUMBER_AND_UNIT.fullmatch(value)
    if match is None:
        raise Invalid(field, f"cannot read {value!r}", f"write for example {example}")
    unit = match[2].lower()
    if unit not in units:
        raise Invalid(field, f"{match[2]!r} is not a unit", f"write for example {example}")
    return number(float(match[1]), field) * units[unit]


def parse_bytes(value: object, field: str) -> int:
    """``12GB``, ``80GiB`` or a plain number of bytes."""
    return whole(round(number(_scaled(value, field, dict(_BYTES), "12GB or 80GiB"), field)), field)


def parse_us(value: object, field: str) -> int:
    """``90s``, ``2h`` or a plain number of seconds, as whole microseconds."""
    return whole(round(_scaled(value, field, _SECONDS, "90s or 2h") * US_PER_S), field, high=_LARGEST)


def parse_milli(value: object, field: str) -> int:
    """A ratio (``0.25`` or ``25%``) of one card, as whole thousandths in 1..1000."""
    ratio = _scaled(value, field, {"": 1.0, "%": 0.01}, "0.25 or 25%")
    if ratio > 1.0:
        meant = f"did you mean {ratio:g}%? " if ratio <= 100 and "%" not in str(value) else ""
        raise Invalid(field, f"{value!r} is more than one GPU", f"{meant}request whole GPUs with gpus: N")
    milli = round(ratio * WHOLE_MILLI)
    if milli < 1:
        raise Invalid(field, f"{value!r} is less than a thousandth of a GPU")
    return milli


def show_bytes(value: int) -> str:
    """A short human text: ``12.0 GB``."""
    amount, unit = _in_unit(value)
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def at_most_bytes(value: int) -> str:
    """The same, rounded down, so that requesting the shown amount never requests more."""
    amount, unit = _in_unit(value)
    return f"{amount:.0f} {unit}" if unit == "B" else f"{math.floor(amount * 10) / 10:.1f} {unit}"


def _in_unit(value: int) -> tuple[float, str]:
    amount = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(amount) < 1000:
            return amount, unit
        amount /= 1000
    return amount, "TB"


def show_gib(value: int) -> str:
    """In binary units, with three digits: ``600 MiB``, ``12.5 GiB``, ``100 TiB``. Never with an exponent."""
    amount, unit = value / 2**20, "MiB"
    for larger in ("GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if unit == "MiB" else f"{_digits(amount, 3)} {unit}"


def show_cores(milli: int) -> str:
    """``2.5 cores``, ``5000 cores``."""
    return "1 core" if milli == WHOLE_MILLI else f"{_digits(milli / WHOLE_MILLI, 2)} cores"


def _digits(value: float, digits: int) -> str:
    """Show this many significant digits, and all before the point."""
    return f"{value:.0f}" if value >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def show_count(number: int, noun: str) -> str:
    """``1 card``, ``2 cards``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def show_wait(value_us: int) -> str:
    """A wait until an instant: below ten minutes to the second, because it is read as a count down."""
    seconds = -(-value_us // US_PER_S)
    if not 60 <= seconds < 600:
        return show_us(seconds * US_PER_S)
    minutes, rest = divmod(seconds, 60)
    return f"{minutes}m{rest:02d}s" if rest else f"{minutes}m"


def show_us(value: int) -> str:
    """A short human text: ``2h05m``. Longer than 100 years: the time is not known."""
    if abs(value) > _CENTURY_US:
        return "an unknown time"
    seconds = value / US_PER_S
    if abs(seconds) < 60:
        return f"{seconds:.3g}s"
    minutes = round(seconds / 60)
    if abs(minutes) < 60:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes:02d}m"
    return f"{hours // 24}d{hours % 24:02d}h"
