"""What a tenant will want of the card, foretold from what its page has told so far.

Its program stands at the gate, so there is no queue of kernels to look at: what it wants next is what it has asked for
at a time when nobody held it, and all it can get when it stands at the gate now.
"""

from __future__ import annotations

from gpusquad.gpu.region.pages import ClientPage
from gpusquad.model.squad import MAX_SQUAD_US

QUIET_US = 300
"""Nothing launched, queued or waiting for so long: idle. Programs pause between kernels all the time."""
_SLOWLY = 0.2
"""How much of a new figure is believed."""
_KERNELS_OVER_US = 500_000
"""How long kernels are is known from about so long, and from what was asked for with them: what is done at a look was
launched long before."""


class DemandPredictor:
    """One tenant. ``see`` is called at every look; times are of one clock that never goes back."""

    def __init__(self) -> None:
        self._last: ClientPage | None = None
        self._seen_us = 0
        self._last_busy_us: int | None = None
        self._last_launch_us = 0
        self._drift_us = 0
        self._wanted_per_us = 0.0
        self._launched, self._launched_us = 0.0, 0.0
        """Of late."""
        self.busy_us = 0
        """For so long something of it was on the card, since the first look."""
        self.backlog_us = 0
        """GPU time queued on the card now."""

    def see(self, page: ClientPage, now_us: int) -> int:
        """GPU time done since the last look."""
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
        self._queue(page)
        self._demand(page, max(page.requested_us - last.requested_us, 0) / passed_us)
        self._last, self._seen_us = page, now_us
        return done_us

    @property
    def kernel_us(self) -> float:
        """The mean of late; 0: not known."""
        return self._launched_us / self._launched if self._launched > 0 else 0.0

    @property
    def has_nothing(self) -> bool:
        """Neither on the card nor at the gate at this moment: idle as others on the card see it."""
        return self._last is None or not (self._last.in_flight or self._last.waiting)

    def is_idle(self, now_us: int) -> bool:
        if self._last_busy_us is None:
            return True
        return self.has_nothing and now_us - self._last_busy_us >= QUIET_US

    def idle_us(self, now_us: int) -> int:
        """For so long nothing of it was launched, queued or waiting; 0: it is not idle."""
        if not self.is_idle(now_us):
            return 0
        return now_us - self._last_busy_us if self._last_busy_us is not None else self.unlaunched_us(now_us)

    def unlaunched_us(self, now_us: int) -> int:
        """For so long it has launched nothing; before the first look nobody knows."""
        return now_us - self._last_launch_us

    @property
    def is_starved(self) -> bool:
        """It stands at the gate, and the card has nothing of it left to do."""
        return self._last is not None and self._last.waiting > 0 and self._last.in_flight == 0

    @property
    def settled_us(self) -> int:
        """What it asked for and the card has done, as it counts what it asks for."""
        return 0 if self._last is None else self._last.requested_us - self.backlog_us

    def demand_us(self, horizon_us: int = MAX_SQUAD_US) -> int:
        """GPU time it would ask for within the horizon, what is queued included."""
        if self._last is not None and self._last.waiting:
            return horizon_us + self.backlog_us
        return int(min(self._wanted_per_us, 1.0) * horizon_us) + self.backlog_us

    def _queue(self, page: ClientPage) -> None:
        """What was asked for and is not done. Processes that died leave a difference behind for good: it is set right
        whenever it shows, by an empty queue or by more done than asked."""
        ahead_us = page.requested_us - page.completed_us
        self.backlog_us = 0 if page.in_flight == 0 else max(0, ahead_us - self._drift_us)
        self._drift_us = ahead_us - self.backlog_us

    def _demand(self, page: ClientPage, asked_per_us: float) -> None:
        if not page.waiting:  # held at the gate it asks for less than it wants
            self._wanted_per_us = _eased(self._wanted_per_us, asked_per_us)


def _eased(before: float, now: float) -> float:
    return now if before == 0.0 else before + _SLOWLY * (now - before)
