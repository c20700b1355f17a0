"""Lines that count attempts: ``attempt 17: connection refused, retrying``. They are new each time, and say nothing new.

Only a number that counts attempts is ignored. Others may be progress: ``waiting for shard 17``, or ``waiting for 17
more workers``. So the number must stand where attempts are counted, and grow by the same amount from line to line.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass

KEPT_FORMS = 256
_NUMBER = r"(\d{1,12})"
_COUNTERS = re.compile(
    rf"\b(?:attempts?|retry|retries|try|tries|count|round|poll|check)\b[\s:=#(\[]{{0,4}}{_NUMBER}(?!\w|[/%-]|\.\d)"
    rf"|[(\[]\s{{0,2}}{_NUMBER}\s{{0,2}}[)\]]"
    rf"|(?<![\w./-]){_NUMBER}\s{{0,2}}(?:attempts?|retries|tries|times|polls|checks)\b"
    rf"|\.\.\s{{0,2}}{_NUMBER}\s{{0,4}}$",
    re.IGNORECASE,
)
_WAITS = re.compile(
    r"\b(?:re-?try(?:ing)?|retries|re-?connect(?:ing)?|attempt(?:s|ing)?|try(?:ing)? again|still waiting"
    r"|wait(?:ing)? (?:for|on|until)|not (?:yet )?(?:ready|available|reachable|up)|unreachable|no route to host"
    r"|connection (?:refused|failed|reset|error|time(?:d |-)?out)|connect(?:ion)? time(?:d |-)?out"
    r"|(?:failed|unable) to connect|(?:could not|cannot|can't) connect)\b",
    re.IGNORECASE,
)
_ENDS = re.compile(
    r"\d\s{0,4}(?:/|of\b|out of\b)\s{0,4}\d|\d\s?%|\bskip|\bnext\b|\b(?:left|remaining|more)\b", re.IGNORECASE
)
"""Attempts that have an end, and lists that are worked off."""


@dataclass(frozen=True, slots=True)
class _Last:
    counts: tuple[int, ...]
    grew: tuple[int, ...] | None = None


class AttemptLines:
    """Fed with every line of a task, without the times in it."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, _Last] = OrderedDict()

    def take(self, text: str) -> bool:
        """Whether it is the next attempt of some that were counted before."""
        if not _WAITS.search(text) or _ENDS.search(text):
            return False
        counts = tuple(int(next(filter(None, found))) for found in _COUNTERS.findall(text))
        if not counts:
            return False
        form = _COUNTERS.sub("#", text)
        before = self._last.pop(form, None)
        grew = None if before is None else tuple(b - a for a, b in zip(before.counts, counts, strict=True))
        self._last[form] = _Last(counts, grew)
        if len(self._last) > KEPT_FORMS:
            self._last.popitem(last=False)
        if before is None or grew is None or min(grew) < 0 or not any(grew):
            return False
        return before.grew in (None, grew)
