"""Rate limits of status writes: per pod, and over all pods. Pure: the time is passed in."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from gpusquad.engines.kubernetes.settings import StatusSettings
from gpusquad.engines.kubernetes.status.message import StatusMessage

MAX_REMEMBERED = 200_000
Slot = tuple[str, str]
"""UID of a pod and a reason. A message replaces the previous one in its slot."""


@dataclass
class TokenBucket:
    """Fills at a constant rate; each write takes one token."""

    per_second: float
    burst: float
    level: float = field(init=False)
    _at_s: float | None = None

    def __post_init__(self) -> None:
        self.burst = max(1.0, self.burst)
        self.level = self.burst

    def wait_s(self, now_s: float) -> float:
        """Takes a token and returns 0, or returns the seconds until there is one."""
        if self._at_s is not None:
            self.level = min(self.burst, self.level + max(0.0, now_s - self._at_s) * self.per_second)
        self._at_s = now_s
        if self.level >= 1.0 - 1e-9:
            self.level -= 1.0
            return 0.0
        return (1.0 - self.level) / self.per_second


@dataclass(frozen=True, slots=True)
class _LastMessage:
    message: str
    material: str
    at_s: float


class RepeatLimiter:
    """Remembers the last message of each slot."""

    def __init__(self, settings: StatusSettings, limit: int = MAX_REMEMBERED) -> None:
        self._settings = settings
        self._limit = limit
        self._last: OrderedDict[Slot, _LastMessage] = OrderedDict()

    def delay_s(self, uid: str, message: StatusMessage, now_s: float) -> float | None:
        """Seconds until the message may be written; None: it was written, and a repeat is not due."""
        last = self._last.get((uid, message.reason))
        if last is None:
            return 0.0
        passed_s, settings = now_s - last.at_s, self._settings
        if message.message == last.message:
            return None if passed_s < settings.repeat_s else 0.0
        gap_s = settings.every_s if message.material == last.material else settings.flap_s
        return max(0.0, gap_s - passed_s)

    def record(self, uid: str, message: StatusMessage, now_s: float) -> None:
        slot = (uid, message.reason)
        self._last[slot] = _LastMessage(message.message, message.material, now_s)
        self._last.move_to_end(slot)
        if len(self._last) > self._limit:
            self._last.popitem(last=False)
