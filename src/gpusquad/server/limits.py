"""How much one caller may ask for, and how fast."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """Generous: made to stop accidents and floods, not work."""

    requests_per_s: float = 1000.0
    requests_burst: int = 2000
    unknown_per_s: float = 100.0
    """Requests of one address whose token is not known yet: each costs a look into the store."""
    unknown_burst: int = 400
    node_reports_per_s: float = 5.0
    """Of the agent of one node."""
    node_reports_burst: int = 20
    body_bytes: int = 1 << 20
    body_timeout_s: float = 15.0
    threads: int = 32
    """Requests at work at once; the others wait."""
    slow_at_once: int = 2
    """Answers that replay the plan (when, why, what if) at once."""
    slow_waiting: int = 16
    streams: int = 256
    streams_of_one: int = 32
    stream_threads: int = 8
    heartbeat_s: float = 15.0
    send_timeout_s: float = 30.0
    """A stream whose reader takes nothing for so long is cut; it can resume."""
    log_chunk_bytes: int = 1 << 18
    log_poll_s: float = 0.3
    """How long a log that nobody announces changes of goes unread."""
    hosts: tuple[str, ...] = ()
    """Names this service may be called by, besides those of the loopback."""


class Buckets:
    """A token bucket for each key. The least recently used is forgotten first, which only gives it a full one again."""

    def __init__(self, per_s: float, burst: int, monotonic_s: Callable[[], float], *, most_keys: int = 10_000) -> None:
        self._per_s = per_s
        self._burst = burst
        self._now_s = monotonic_s
        self._most_keys = most_keys
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """0 if one may pass, else the seconds until one may."""
        now_s = self._now_s()
        left, at_s = self._left.pop(key, (float(self._burst), now_s))
        left = min(float(self._burst), left + (now_s - at_s) * self._per_s)
        wait_s = 0.0 if left >= 1.0 else (1.0 - left) / self._per_s
        self._left[key] = (left if wait_s else left - 1.0, now_s)
        if len(self._left) > self._most_keys:
            self._left.popitem(last=False)
        return wait_s
