"""Order in which pending jobs get their reasons written. Pure: the time is passed in.

First the head of the queue, then jobs without a status or with an outdated one, newest first, then all others, least
recently updated first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

FRONT = 20
"""Jobs at the head of the queue that go first."""


class PodUpdateQueue:
    """Remembers when each pending job was last updated."""

    def __init__(self, every_s: float, front: int = FRONT) -> None:
        self._every_s = every_s
        self._front = front
        self._asked_s: dict[str, float] = {}
        self._stale: set[str] = set()

    def changed(self, job_id: str) -> None:
        """The status of the job's pods may be outdated."""
        self._stale.add(job_id)

    def choose(self, waiting: Sequence[str], line: Iterable[str], room: int, now_s: float) -> list[str]:
        """Jobs to update, the most urgent first. ``waiting``: all pending jobs in the order of their arrival."""
        self._forget(set(waiting))
        return list(islice(self._in_order(waiting, line, now_s), max(0, room)))

    def asked(self, job_id: str, now_s: float) -> bool:
        """Whether it is the first update of the job."""
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
