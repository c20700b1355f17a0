"""Priorities: integers, some of which have names, as the PriorityClasses of Kubernetes do.

In texts, in the store and in the API a priority is the name of its class, or else the integer in decimal.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

from gpusquad.model.errors import Invalid

DEFAULT_PRIORITY = "normal"
HIGH = "high"
URGENT = "urgent"
PRIORITY_CLASSES = {"low": -1_000, DEFAULT_PRIORITY: 0, HIGH: 1_000, URGENT: 1_000_000}
"""Named priorities, lowest first. On Kubernetes, classes of applications are mostly between ``high`` and ``urgent``."""
URGENT_LEVEL = PRIORITY_CLASSES[URGENT]
"""From here on a job goes first in every order."""
MAX_LEVEL = 2_147_483_647
"""Largest number, and with a minus the smallest one: Kubernetes stores 32 bits."""

_NAMES = {level: name for name, level in PRIORITY_CLASSES.items()}
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


def level_of(priority: str) -> int:
    """The integer of a valid priority."""
    level = PRIORITY_CLASSES.get(priority)
    return int(priority) if level is None else level


def is_priority(text: str) -> bool:
    """Whether ``level_of`` can read it."""
    return text in PRIORITY_CLASSES or (bool(_INTEGER.fullmatch(text)) and abs(int(text)) <= MAX_LEVEL)


def is_above_high(priority: str) -> bool:
    """Whether runs with this priority count as urgent GPU-hours. An invalid one is left to the checks of its field."""
    return is_priority(priority) and level_of(priority) > PRIORITY_CLASSES[HIGH]


def name_of(level: int) -> str:
    """The name of the priority, else its number."""
    return _NAMES.get(level) or str(level)


def priority_text(value: object, field: str) -> str:
    """A priority that somebody wrote, as a name or a number, checked. ``1000`` and ``"1000"`` become ``high``."""
    if isinstance(value, str) and value in PRIORITY_CLASSES:
        return value
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if is_integer or (isinstance(value, str) and _INTEGER.fullmatch(value.strip())):
        level = int(value)  # type: ignore[arg-type]
        if abs(level) > MAX_LEVEL:
            raise Invalid(field, f"{str(level)[:24]} is too large a number", f"use {-MAX_LEVEL} to {MAX_LEVEL}")
        return name_of(level)
    shown = value[:64] if isinstance(value, str) else value if isinstance(value, (int, float)) else type(value).__name__
    raise Invalid(field, f"{shown!r} is neither a priority class nor an integer", _cure(value))


def _cure(value: object) -> str:
    close = get_close_matches(value[:64].lower(), list(PRIORITY_CLASSES), 1) if isinstance(value, str) else []
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"{meant}use {', '.join(PRIORITY_CLASSES)}, or an integer (high is {PRIORITY_CLASSES[HIGH]})"


def card_level_of(level: int) -> int:
    """What counts on a shared card: -1 below normal, 0 normal, 1 above it, 2 urgent."""
    return 2 if level >= URGENT_LEVEL else (level > 0) - (level < 0)


def precedence(priority: str) -> int:
    """Sorts before the key of the order policy: negative for urgent jobs, the highest first, else 0."""
    level = PRIORITY_CLASSES.get(priority)
    return min(0, URGENT_LEVEL - 1 - (int(priority) if level is None else level))


def highest(*priorities: str) -> str:
    return max(priorities, key=level_of)


def lowest(*priorities: str) -> str:
    return min(priorities, key=level_of)
