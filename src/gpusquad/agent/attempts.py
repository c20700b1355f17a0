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
    rf"\b(?:attempts?|retry|retries|try|tries|count|round|poll|check|restarts?|transaction)\b[\s:=#(\[]{{0,4}}{_NUMBER}(?!\w|[/%-]|\.\d)"
    rf"|\b(?:Fork|Spawn|ForkServer)PoolWorker-{_NUMBER}"
    rf"|[(\[]\s{{0,2}}{_NUMBER}\s{{0,2}}[)\]]"
    rf"|(?<![\w./-]){_NUMBER}\s{{0,2}}(?:attempts?|retries|tries|times|polls|checks|restarts)\b"
    rf"|\.\.\s{{0,2}}{_NUMBER}\s{{0,4}}$",
    re.IGNORECASE,
)
_WAITS = re.compile(
    r"\b(?:re-?try(?:ing)?|retries|re-?connect(?:ing)?|attempt(?:s|ing)?|try(?:ing)? again|still waiting"
    r"|wait(?:ing)? (?:for|on|until)|not (?:yet )?(?:ready|available|reachable|up)|unreachable|no route to host"
    r"|connection (?:refused|failed|reset|error|time(?:d |-)?out)|connect(?:ion)? time(?:d |-)?out"
    r"|(?:failed|unable) to connect|(?:could not|cannot|can't) connect|restart(?:s|ed|ing)?"
    r"|Process \w{1,16}PoolWorker-\d{1,12}(?=:))\b"
    r"|[(\[]try[: ]{0,2}\d",  # wget
    re.IGNORECASE,
)
_ENDS = re.compile(
    r"\d\s{0,4}(?:/|of\b|out of\b)\s{0,4}\d|\d\s?%|\bskip|\bnext\b|\b(?:left|remaining|more)\b", re.IGNORECASE
)
"""Attempts that have an end, and lists that are worked off."""
_IDS = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|\b(?=[0-9]{0,63}[a-f])(?=[a-f]{0,63}[0-9])[0-9a-f]{12,64}\b",
    re.IGNORECASE,
)
"""Names of requests. Those of attempts are new each time."""
_TROUBLE = re.compile(
    r"\b(?:\w{0,40}errors?|\w{0,40}exception|fail(?:s|ed|ing|ures?)?|traceback|refused|time(?:d[ -]?|-)?out"
    r"|re-?try(?:ing)?|retries|re-?connect(?:ing)?|wait(?:s|ing)?|unable|cannot|could not"
    r"|not (?:found|ready|available)|missing|denied|unavailable|unreachable|no such|aborted|crashed"
    r"|killed|restart(?:s|ed|ing)?|resum(?:e|es|ed|ing))\b",
    re.IGNORECASE,
)
_CRASH = re.compile(
    r"Traceback \(most recent call last\)|\bSegmentation fault\b|\bcore dumped\b|\bpanicked at\b"
    r"|\b(?:exited|terminated|died)\b.{0,40}\b(?:code|signal|status)\b|\brestarting\b",
    re.IGNORECASE,
)
_RESTART = re.compile(
    r"\b(?:\w{0,40}errors?|\w{0,40}exception|traceback|restart(?:s|ed|ing)?|resum(?:e|es|ed|ing))\b", re.IGNORECASE
)
"""Not a failure alone: a trial or an episode may fail, and the next one begins."""
_FINE = re.compile(
    r"\b(?:ok|pass(?:ed)?|success(?:ful(?:ly)?)?|succeeded|done|finished|complete[d]?|skip(?:s|ped|ping)?|ignor(?:ed|ing)"
    r"|(?:0|no|without) (?:errors?|failures?|failed|exceptions?)|(?:errors?|failures?|failed)[ :=]{1,3}0)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class LineTone:
    """What a line speaks of."""

    is_trouble: bool = False
    """Of errors, or of waiting."""
    is_crash: bool = False
    """Of the end of a program that failed."""
    is_restart: bool = False
    """Of an error, or of starting again."""
    is_fine: bool = False
    """Of something that was done, or left out on purpose."""
    is_success: bool = False
    """The same, and not of an error or of waiting."""


def tone_of(text: str) -> LineTone:
    if _FINE.search(text):
        return LineTone(is_fine=True, is_success=_TROUBLE.search(text) is None)
    is_crash = _CRASH.search(text) is not None
    is_trouble = is_crash or _TROUBLE.search(text) is not None
    return LineTone(is_trouble, is_crash, is_restart=is_trouble and _RESTART.search(text) is not None)


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
        without_ids = _IDS.sub("@", text)
        counts = tuple(int(next(filter(None, found))) for found in _COUNTERS.findall(without_ids))
        if not counts and without_ids == text:
            return False
        form = _COUNTERS.sub("#", without_ids)
        before = self._last.pop(form, None)
        grew = None if before is None else tuple(b - a for a, b in zip(before.counts, counts, strict=True))
        self._last[form] = _Last(counts, grew)
        if len(self._last) > KEPT_FORMS:
            self._last.popitem(last=False)
        if before is None or grew is None:
            return False
        if not counts:
            return True
        if min(grew) < 0 or not any(grew):
            return False
        return before.grew in (None, grew)
