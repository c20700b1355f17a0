"""The service's clock: starts at the wall clock and then follows the monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Callable

NS_PER_US = 1000


class Clock:
    """Microseconds since the epoch. A jump of the wall clock has no effect while the service runs."""

    def __init__(self, not_before_us: int = 0, wall_ns: Callable[[], int] = time.time_ns,
                 monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:  # fmt: skip
        self._monotonic_ns = monotonic_ns
        self._zero_us = max(wall_ns() // NS_PER_US, not_before_us) - monotonic_ns() // NS_PER_US

    def now_us(self) -> int:
        return self._zero_us + self._monotonic_ns() // NS_PER_US

    def not_before(self, at_us: int) -> None:
        """Continue no earlier than a stored time, even if the wall clock was set back since."""
        self._zero_us += max(0, at_us - self.now_us())
