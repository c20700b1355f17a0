"""Rate and size limits of one caller."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """Generous: meant to stop accidents and floods, not normal use."""

    requests_per_s: float = 1000.0
    requests_burst: int = 2000
    unknown_per_s: float = 100.0
    """Requests of one address with unknown tokens: each needs a query."""
    unknown_burst: int = 400
    node_reports_per_s: float = 5.0
    """Of the agent of one node."""
    node_reports_burst: int = 20
    body_bytes: int = 1 << 20
    body_timeout_s: float = 15.0
    threads: int = 32
    """Requests handled at once; others wait."""
    slow_at_once: int = 2
    """Concurrent answers that replay the plan (when, why, what-if)."""
    slow_waiting: int = 16
    streams: int = 256
    streams_of_one: int = 32
    stream_threads: int = 8
    heartbeat_s: float = 15.0
    send_timeout_s: float = 30.0
    """A stream whose reader accepts nothing for this long is cut; it can resume."""
    log_chunk_bytes: int = 1 << 18
    log_poll_s: float = 0.3
    """Polling interval of a log without change reports."""
    hosts: tuple[str, ...] = ()
    """Host names of this service besides those of the loopback."""


class Buckets:
    """A token bucket for each key. The least recently used one is dropped, which only fills it again."""

    def __init__(self, per_s: float, burst: int, monotonic_s: Callable[[], float], *, most_keys: int = 10_000) -> None:
        self._per_s = per_s
        self._burst = burst
        self._now_s = monotonic_s
        self._most_keys = most_keys
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """0 if the request may pass, otherwise the seconds until it may."""
        now_s = self._now_s()
        left, at_s = self._left.pop(key, (float(self._burst), now_s))
        left = min(float(self._burst), left + (now_s - at_s) * self._per_s)
        wait_s = 0.0 if left >= 1.0 else (1.0 - left) / self._per_s
        self._left[key] = (left if wait_s else left - 1.0, now_s)
        if len(self._left) > self._most_keys:
            self._left.popitem(last=False)
        return wait_s
