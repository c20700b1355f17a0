"""Whose pods are told next why they wait. Pure: the time is passed in.

Whoever is first in line comes first, then whoever has not been told yet, the newest before the older; then everybody
else in turn, whoever was asked about longest ago before the others.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

FRONT = 20
"""So many count as first in line."""


class PodUpdateQueue:
    """Knows when each job that waits was asked about last."""

    def __init__(self, every_s: float, front: int = FRONT) -> None:
        self._every_s = every_s
        self._front = front
        self._asked_s: dict[str, float] = {}
        self._stale: set[str] = set()

    def changed(self, job_id: str) -> None:
        """Something happened to it: what its pods say may be wrong."""
        self._stale.add(job_id)

    def choose(self, waiting: Sequence[str], line: Iterable[str], room: int, now_s: float) -> list[str]:
        """Jobs to ask about, the most urgent first. ``waiting``: all jobs that wait, in the order they came."""
        self._forget(set(waiting))
        return list(islice(self._in_order(waiting, line, now_s), max(0, room)))

    def asked(self, job_id: str, now_s: float) -> bool:
        """Whether it was for the first time."""
        is_first = job_id not in self._asked_s
        self._asked_s[job_id] = now_s
        self._stale.discard(job_id)
        return is_first

    def _in_order(self, waiting: Sequence[str], line: Iterable[str], now_s: float) -> Iterator[str]:
        there = set(waiting)
        front = [job_id for job_id in islice(line, self._front) if job_id in there and self._is_due(job_id, now_s)]
        yield from front
        seen = set(front)
        for job_id in reversed(waiting):
            if job_id not in seen and (job_id not in self._asked_s or job_id in self._stale):
                seen.add(job_id)
                yield job_id
        due = [(at_s, job_id) for job_id, at_s in self._asked_s.items() if self._is_due(job_id, now_s)]
        heapq.heapify(due)
        while due:
            _, job_id = heapq.heappop(due)
            if job_id not in seen:
                yield job_id

    def _is_due(self, job_id: str, now_s: float) -> bool:
        at_s = self._asked_s.get(job_id)
        return at_s is None or job_id in self._stale or now_s - at_s >= self._every_s

    def _forget(self, there: set[str]) -> None:
        for job_id in [job_id for job_id in self._asked_s if job_id not in there]:
            del self._asked_s[job_id]
        self._stale &= there
