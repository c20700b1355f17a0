"""Predicted demand of a GPU client, from the counters on its page of the region.

A launch beyond the client's credit waits inside the program, at the shim's gate, so the daemon cannot see how much more
the program wants. Its demand is therefore predicted from the rate at which it requested GPU time while it was not
waiting. A client that waits at the gate counts as wanting the whole horizon.
"""

from __future__ import annotations

from gpusquad.gpu.region.pages import ClientPage
from gpusquad.model.squad import MAX_SQUAD_US

QUIET_US = 300
"""Time without launched, queued or waiting work after which a client is idle. Programs pause between kernels."""
_SMOOTHING = 0.2
"""Weight of a new value in the moving average."""
_KERNELS_OVER_US = 500_000
"""Window of the mean kernel time. It counts launches and their requested time, not completions, so that both
numbers belong to the same kernels."""


class DemandPredictor:
    """One client. ``see`` is called at every reading of its page; times are of a monotonic clock."""

    def __init__(self) -> None:
        self._last: ClientPage | None = None
        self._seen_us = 0
        self._last_busy_us: int | None = None
        self._last_launch_us = 0
        self._drift_us = 0
        self._wanted_per_us = 0.0
        self._launched, self._launched_us = 0.0, 0.0
        """Launches and their requested time over the window."""
        self.busy_us = 0
        """Time with work on the card since the first reading."""
        self.backlog_us = 0
        """GPU time queued on the card."""

    def see(self, page: ClientPage, now_us: int) -> int:
        """Read its page. Returns the GPU time completed since the last reading."""
        last = page if self._last is None else self._last
        passed_us = max(now_us - self._seen_us, 1)
        launched = max(page.launches - last.launches, 0)
        done_us = max(page.completed_us - last.completed_us, 0)
        if launched or page.in_flight or page.waiting:
            self._last_busy_us = now_us
        if launched or self._last is None:
            self._last_launch_us = now_us
        if page.in_flight and self._last is not None:
            self.busy_us += passed_us
        kept = max(0.0, 1.0 - passed_us / _KERNELS_OVER_US)
        self._launched = kept * self._launched + launched
        self._launched_us = kept * self._launched_us + max(page.requested_us - last.requested_us, 0)
        self._update_backlog(page)
        self._update_rate(page, max(page.requested_us - last.requested_us, 0) / passed_us)
        self._last, self._seen_us = page, now_us
        return done_us

    @property
    def kernel_us(self) -> float:
        """Mean over the window; 0: unknown."""
        return self._launched_us / self._launched if self._launched > 0 else 0.0

    @property
    def has_nothing(self) -> bool:
        """No work on the card or at the gate at this moment. ``is_idle`` adds a pause of ``QUIET_US``."""
        return self._last is None or not (self._last.in_flight or self._last.waiting)

    def is_idle(self, now_us: int) -> bool:
        if self._last_busy_us is None:
            return True
        return self.has_nothing and now_us - self._last_busy_us >= QUIET_US

    def idle_us(self, now_us: int) -> int:
        """Time since it last had launched, queued or waiting work; 0: it is not idle."""
        if not self.is_idle(now_us):
            return 0
        return now_us - self._last_busy_us if self._last_busy_us is not None else self.unlaunched_us(now_us)

    def unlaunched_us(self, now_us: int) -> int:
        """Time since its last launch, counted from the first reading at the earliest."""
        return now_us - self._last_launch_us

    @property
    def is_starved(self) -> bool:
        """It waits at the gate and has no work on the card."""
        return self._last is not None and self._last.waiting > 0 and self._last.in_flight == 0

    @property
    def settled_us(self) -> int:
        """Position on the client's ``requested_us`` counter up to which its work is complete: the start of credit."""
        return 0 if self._last is None else self._last.requested_us - self.backlog_us

    def demand_us(self, horizon_us: int = MAX_SQUAD_US) -> int:
        """GPU time it would request within the horizon, including queued work."""
        if self._last is not None and self._last.waiting:
            return horizon_us + self.backlog_us
        return int(min(self._wanted_per_us, 1.0) * horizon_us) + self.backlog_us

    def _update_backlog(self, page: ClientPage) -> None:
        """Requested and not completed time. Dead processes leave a permanent difference, which is corrected when it
        shows: by an empty queue, or by more completed than requested."""
        ahead_us = page.requested_us - page.completed_us
        self.backlog_us = 0 if page.in_flight == 0 else max(0, ahead_us - self._drift_us)
        self._drift_us = ahead_us - self.backlog_us

    def _update_rate(self, page: ClientPage, asked_per_us: float) -> None:
        if not page.waiting:  # held at the gate it requests less than it needs
            self._wanted_per_us = _smoothed(self._wanted_per_us, asked_per_us)


def _smoothed(before: float, now: float) -> float:
    """0.0 means that there is no value yet."""
    return now if before == 0.0 else before + _SMOOTHING * (now - before)
