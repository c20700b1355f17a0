"""How often: for one pod, and for all together. Pure: the time is passed in."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from gpusquad.engines.kubernetes.settings import StatusSettings
from gpusquad.engines.kubernetes.status.message import StatusMessage

MOST_REMEMBERED = 200_000
Slot = tuple[str, str]
"""A pod's uid and a reason: what is told there replaces what was told there before."""


@dataclass
class TokenBucket:
    """Fills at a steady rate; each write takes one."""

    per_second: float
    burst: float
    level: float = field(init=False)
    _at_s: float | None = None

    def __post_init__(self) -> None:
        self.burst = max(1.0, self.burst)
        self.level = self.burst

    def wait_s(self, now_s: float) -> float:
        """Takes one, or says how long until there is one to take."""
        if self._at_s is not None:
            self.level = min(self.burst, self.level + max(0.0, now_s - self._at_s) * self.per_second)
        self._at_s = now_s
        if self.level >= 1.0 - 1e-9:
            self.level -= 1.0
            return 0.0
        return (1.0 - self.level) / self.per_second


@dataclass(frozen=True, slots=True)
class _Last:
    message: str
    material: str
    at_s: float


class RepeatLimiter:
    """Remembers what each pod was told last."""

    def __init__(self, settings: StatusSettings, most: int = MOST_REMEMBERED) -> None:
        self._settings = settings
        self._most = most
        self._last: OrderedDict[Slot, _Last] = OrderedDict()

    def delay_s(self, uid: str, saying: StatusMessage, now_s: float) -> float | None:
        """How long it has to wait before it may be told; None: it was told, and need not be told again yet."""
        last = self._last.get((uid, saying.reason))
        if last is None:
            return 0.0
        passed_s, settings = now_s - last.at_s, self._settings
        if saying.message == last.message:
            return None if passed_s < settings.repeat_s else 0.0
        gap_s = settings.every_s if saying.material == last.material else settings.flap_s
        return max(0.0, gap_s - passed_s)

    def told(self, uid: str, saying: StatusMessage, now_s: float) -> None:
        slot = (uid, saying.reason)
        self._last[slot] = _Last(saying.message, saying.material, now_s)
        self._last.move_to_end(slot)
        if len(self._last) > self._most:
            self._last.popitem(last=False)
