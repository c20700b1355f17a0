"""The predicted future: ends of runs, reservations, maintenance windows.

The *wall* of a reservation is the capacity at its start, without the reserved cards. A job that would still run at that
instant must fit both into the capacity that is free now and into the wall.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np

from gpusquad.core.capacity.space import Space
from gpusquad.core.state.runs import FOREVER_US, NEVER_US, Runs
from gpusquad.model.cluster import MaintenanceWindow
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement

_LAST = 1 << 62
"""Sorts behind every sequence number."""
UNKNOWN_SPARE = 1 << 40


@dataclass(frozen=True, slots=True)
class Pin:
    """Cards kept for a pending job until it starts. They are idle or held by these runs, which it waits for."""

    placement: Placement
    holders: tuple[str, ...]
    closed: frozenset[int] = frozenset()
    """Cards of earlier pins of the job. They stay closed to jobs behind it: a pin that moves must not free the cards
    that it leaves for further guests."""


@dataclass(slots=True, eq=False)
class Reservation:
    """Cards set aside for a pending gang from a start time on."""

    job: Job
    start_us: int
    end_us: int
    placement: Placement | None
    """None while the number of cards is enough."""
    spare_cards: int = UNKNOWN_SPARE
    """Cards idle at the start besides the reserved ones. A job that needs more must end before the start."""
    first_us: int = 0
    """The first start reported to the user, from high quantiles."""
    open_until_us: int = FOREVER_US
    """Jobs behind it may use what it needs until this instant at most. Never later than ``start_us``; see
    ``core.planning.commitments``."""
    pin: Pin | None = None
    """Its cards are kept for it from now on, whatever the predictions say."""
    keeps_cards: bool = False
    """Whether it may not move to other cards that are predicted to be free at its start."""
    wall: Space | None = None
    """Cached capacity at the start without the reserved cards. A run that ends as predicted does not change it."""

    @property
    def is_pinned(self) -> bool:
        return self.pin is not None

    def overlaps(self, start_us: int, end_us: int, is_behind: bool = False) -> bool:
        """Whether a job that holds cards in this period could be in its way. ``is_behind``: the job is behind it in the
        order, so it must be gone by ``open_until_us``."""
        from_us = min(self.start_us, self.open_until_us) if is_behind else self.start_us
        return from_us < end_us and start_us < self.end_us


class Timeline:
    """Free capacity over time, and the first instant at which a gang fits."""

    def __init__(self, space: Space, runs: Runs, windows: tuple[MaintenanceWindow, ...] = ()) -> None:
        self.space = space
        self.runs = runs
        self.windows = list(windows)
        self.reservations: dict[str, Reservation] = {}
        """In the order of the queue."""

    def space_at(self, at_us: int) -> Space:
        """A copy of the capacity at an instant, if no job starts before."""
        future = self.space.copy()
        self.runs.release_until(future, at_us)
        return future

    def available(self, start_us: int, end_us: int, now_us: int, reservations: list[Reservation]) -> Space:
        """A copy of the capacity that a job may use from start to end without delaying these reservations."""
        free = self._less_reserved(start_us, now_us, reservations)
        for at_us in sorted({p.start_us for p in reservations if p.start_us > start_us}):
            free.keep_least(self._less_reserved(at_us, now_us, reservations))
        for reservation in reservations:
            if reservation.is_pinned:
                free.keep_least(self.wall_of(reservation))
        self._close_windows(free, start_us, end_us)
        return free

    def wall_of(self, reservation: Reservation) -> Space:
        """Capacity at its start without what it needs. Pinned: capacity now, as if only the runs on its cards had
        ended, because others may hold their CPU and memory for longer than predicted."""
        pin = reservation.pin
        if pin is None:
            wall = self.space_at(reservation.start_us)
        else:
            wall = self.space.copy()
            for job_id in pin.holders:
                if job_id in self.runs:
                    wall.release(self.runs[job_id].job, self.runs[job_id].placement)
        if reservation.placement is not None:
            wall.take(reservation.job, reservation.placement)
        for card in pin.closed if pin is not None else ():
            wall.set_card_ok(card, False)
        return wall

    def _less_reserved(self, at_us: int, now_us: int, reservations: list[Reservation]) -> Space:
        free = self.space.copy() if at_us <= now_us else self.space_at(at_us)
        for reservation in reservations:
            if reservation.start_us <= at_us < reservation.end_us and reservation.placement is not None:
                free.take(reservation.job, reservation.placement)
        return free

    def closed_nodes(self, start_us: int, end_us: int) -> list[int]:
        """Nodes with a maintenance window in this period."""
        index = self.space.fixed.node_index
        return sorted({
            index[name] for window in self.windows for name in window.nodes
            if name in index and window.start_us < end_us and (window.end_us is None or start_us < window.end_us)
        })  # fmt: skip

    def _close_windows(self, free: Space, start_us: int, end_us: int) -> None:
        if self.windows:
            free.hide(np.array(self.closed_nodes(start_us, end_us), dtype=np.int64))

    def instants(self, now_us: int) -> list[int]:
        """When capacity may grow: predicted ends (for overdue runs: just after now), ends of reservations and of
        windows. NEVER_US stands for unknown ends."""
        times = {end_us for end_us, _, _ in self.runs.ends}
        times.update(p.end_us for p in self.reservations.values())
        times.update(w.end_us for w in self.windows if w.end_us is not None)
        return sorted({max(t, now_us + 1) for t in times if t <= NEVER_US})

    def first_fit_alone(self, job: Job, now_us: int, hint_us: int | None = None) -> int:
        """The first instant at which the gang fits if there were no other reservations (after NEVER_US: none)."""
        if self.can_fit_by_count(job):
            return self._first_fit_by_count(job, now_us)
        if self.space.fits(job):
            return now_us  # it waits for a window or for others' reservations, not for cards
        ends = self.runs.ends
        low, high = bisect_right(ends, (now_us, _LAST)), len(ends)
        if low and self._fits_at(job, now_us):
            return now_us + 1
        if hint_us is not None:
            # The last answer is usually still right: check it and the instant before it first.
            guess = bisect_right(ends, (hint_us, _LAST)) - 1
            if guess >= low and self._fits_at(job, ends[guess][0]):
                high = bisect_left(ends, (ends[guess][0],))
                if high > low and not self._fits_at(job, ends[high - 1][0]):
                    return ends[high][0]
        while low < high:
            middle = (low + high) // 2
            if self._fits_at(job, ends[middle][0]):
                high = middle
            else:
                low = middle + 1
        return ends[low][0] if low < len(ends) else FOREVER_US

    def _fits_at(self, job: Job, at_us: int) -> bool:
        return self.space_at(at_us).fits(job)

    def can_fit_by_count(self, job: Job) -> bool:
        """Each task needs only one idle card, and all cards are held whole, so counting cards is exact."""
        return (
            self.space.all_well
            and not self.runs.sharing
            and not self.runs.any_node_rows
            and all(request.needs_only_idle_cards for request, _ in job.groups)
        )

    def _first_fit_by_count(self, job: Job, now_us: int) -> int:
        missing = job.gang.min_gpus - self.space.idle_total
        return now_us if missing <= 0 else max(now_us + 1, self.runs.nth_card_free_us(missing))
