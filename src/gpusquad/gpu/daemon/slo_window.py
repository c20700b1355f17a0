"""SLO attainment of a client over a window, from reported latencies or from iterations found in its launches."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from gpusquad.model.job import Slo
from gpusquad.model.units import US_PER_S

_SLICES = 10
"""Availability is the fraction of these slices of the window with service."""
_MET_RATIO = 0.99
"""Attainment from which a target counts as met."""
_MAX_REQUESTS = 1000
"""Requests considered per squad. Clients may report any number."""


class SloWindow:
    """A sliding window. While it is empty, attainment is unknown."""

    def __init__(self, window_us: int = 5 * US_PER_S) -> None:
        self._window_us = window_us
        self._latencies: deque[tuple[int, float]] = deque(maxlen=_MAX_REQUESTS)
        self._told: deque[tuple[int, int]] = deque()
        self._told_of = 0
        self._iterations: deque[tuple[int, int]] = deque()
        self._wanted: deque[tuple[int, int]] = deque()
        self._busy: deque[tuple[int, int]] = deque()
        self._since_us: int | None = None
        self._last_us = 0
        self._wanted_us = 0

    def latencies(self, now_us: int, values_us: Sequence[float]) -> None:
        self._latencies.extend((now_us, value) for value in values_us)
        self._told_of += len(values_us)
        self._note(self._told, now_us, self._told_of)

    def iterations(self, now_us: int, count: int, wants: bool = True) -> None:
        """Record the count so far. ``wants``: it had work since the last call."""
        if self._since_us is None:
            self._since_us = self._last_us = now_us
        if wants:
            self._wanted_us += now_us - self._last_us
        self._last_us = now_us
        self._note(self._wanted, now_us, self._wanted_us)
        self._note(self._iterations, now_us, count)

    def busy(self, now_us: int, busy_us: int) -> None:
        """Record the busy time so far."""
        self._note(self._busy, now_us, busy_us)

    def busy_ratio(self) -> float:
        """Fraction of the window with work on the card."""
        return _slope(self._busy)

    @property
    def requests(self) -> int:
        """Number of reported requests in the window."""
        return len(self._latencies)

    def per_s(self, now_us: int) -> float:
        """Requests per second if reported, otherwise iterations per second."""
        if len(self._latencies) == _MAX_REQUESTS:
            return US_PER_S * _slope(self._told)
        if self._latencies:
            return len(self._latencies) * US_PER_S / self._span_us(now_us)
        return US_PER_S * _slope(self._iterations)

    def active_per_s(self, now_us: int) -> float:
        """The same over the time in which it had work."""
        wanted = _slope(self._wanted)
        return self.per_s(now_us) / wanted if wanted > 0 else 0.0

    def p99_us(self) -> float:
        if not self._latencies:
            return 0.0
        values = sorted(value for _, value in self._latencies)
        return values[min(len(values) - 1, int(0.99 * len(values)))]

    def attainment(self, slo: Slo | None, now_us: int, wants: bool) -> float | None:
        """Minimum over the targets: requests in time, throughput over its target, service while it had work. None:
        unknown. One target that is met says nothing about another one that nobody reports; one that is missed does."""
        parts = [] if slo is None else self._parts(slo, now_us, wants)
        known = [part for part in parts if part is not None]
        if not known or (len(known) < len(parts) and min(known) >= _MET_RATIO):
            return None
        return min(known)

    def _parts(self, slo: Slo, now_us: int, wants: bool) -> list[float | None]:
        """Attainment of each target that applies now. None: unknown. Without work there is no rate to judge."""
        parts: list[float | None] = []
        if slo.latency_us is not None:
            in_time = sum(value <= slo.latency_us for _, value in self._latencies)
            parts.append(in_time / len(self._latencies) if self._latencies else None)
        if slo.throughput_per_s and wants:
            is_known = self._is_long_enough() and self._counts_anything()
            parts.append(min(1.0, self.active_per_s(now_us) / slo.throughput_per_s) if is_known else None)
        if slo.availability_ratio is not None and wants:
            parts.append(self._served_slices(now_us) if self._counts_anything() else None)
        return parts

    def _counts_anything(self) -> bool:
        """Whether requests are reported or iterations were found."""
        return bool(self._latencies) or bool(self._iterations and self._iterations[-1][1])

    def _is_long_enough(self) -> bool:
        """Whether it had work for long enough to measure its rate."""
        return bool(self._wanted) and self._wanted[-1][1] - self._wanted[0][1] >= self._window_us // _SLICES

    def _served_slices(self, now_us: int) -> float | None:
        """Fraction of the completed slices in which a request or iteration finished. None: no slice is complete."""
        slice_us = self._window_us // _SLICES
        whole = min(self._span_us(now_us) // slice_us, _SLICES)
        if whole == 0:
            return None
        served = {(now_us - at_us) // slice_us for at_us, _ in self._latencies}
        for (_, before), (at_us, count) in zip(self._iterations, list(self._iterations)[1:], strict=False):
            if count > before:
                served.add((now_us - at_us) // slice_us)
        return sum(1 for index in range(whole) if index in served) / whole

    def _span_us(self, now_us: int) -> int:
        starts = [row[0][0] for row in (self._latencies, self._iterations) if row]
        since_us = self._since_us if self._since_us is not None else min(starts, default=now_us)
        return max(1, min(self._window_us, now_us - since_us))

    def _note(self, rows: deque[tuple[int, int]], now_us: int, sum_so_far: int) -> None:
        if not rows or now_us - rows[-1][0] >= self._window_us // (10 * _SLICES):
            rows.append((now_us, sum_so_far))
        self._forget(now_us)

    def _forget(self, now_us: int) -> None:
        for rows in (self._latencies, self._told, self._iterations, self._wanted, self._busy):
            while rows and rows[0][0] < now_us - self._window_us:
                rows.popleft()


def _slope(rows: deque[tuple[int, int]]) -> float:
    """Growth of a sum per microsecond."""
    if len(rows) < 2:
        return 0.0
    (from_us, first), (to_us, last) = rows[0], rows[-1]
    return (last - first) / max(to_us - from_us, 1)
