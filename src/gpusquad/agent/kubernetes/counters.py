"""Event counters of the agent."""

from __future__ import annotations

import threading
from collections import Counter


class EventCounters:
    """Monotonic counters. Threads may share them."""

    NAMES = ("allocations", "refusals", "mismatches", "evictions", "registrations", "reports", "reports_failed")

    def __init__(self) -> None:
        self._values: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, name: str) -> None:
        assert name in self.NAMES, name
        with self._lock:
            self._values[name] += 1

    def __getitem__(self, name: str) -> int:
        return self._values[name]
