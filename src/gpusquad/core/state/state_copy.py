"""Copies of the state for what-if queries."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from gpusquad.core.state.accounts import Accounts
from gpusquad.core.state.queue import PendingJob, Queue
from gpusquad.core.state.runs import Runs
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.state.timeline import Timeline


def copy_state(state: SchedulerState) -> SchedulerState:
    """An independent copy. Jobs, placements and policies are immutable and therefore shared."""
    other = copy(state)
    other.space = state.space.copy()
    other.runs = copy_runs(state.runs)
    other.timeline = Timeline(other.space, other.runs, tuple(state.timeline.windows))
    other.timeline.reservations = {
        name: replace(reservation, wall=None) for name, reservation in state.timeline.reservations.items()
    }
    other.accounts = _copy_accounts(state.accounts)
    for name in (
        "claims",
        "outages",
        "pins",
        "places_us",
        "startless_us",
        "committed_us",
        "first_reserved_us",
        "delayed_starts",
        "later_ends",
        "shapes",
        "shape_jobs",
        "_possible",
    ):
        setattr(other, name, copy(getattr(state, name)))
    other._configured = None
    refill_queue(other, [replace(waiting) for waiting in state.queue])
    return other


def copy_runs(runs: Runs) -> Runs:
    other = Runs()
    for run in runs.by_id.values():
        other.add(replace(run))
    # It stays set when the last run with CPU has ended, and affects how reservations are made.
    other.any_node_rows = runs.any_node_rows
    return other


def refill_queue(state: SchedulerState, waiting: list[PendingJob]) -> None:
    """Fill the queue with these jobs by their stored ranks. The next cycle ranks them again."""
    state.queue = Queue()
    state.new_jobs = []
    state.shape_waiting = {}
    for each in waiting:
        key = each.rank[1:-1]
        state.queue.insert(each, lambda _, key=key: key)
        state.shape_waiting[each.shape] = state.shape_waiting.get(each.shape, 0) + 1
        if each.is_new:
            state.new_jobs.append(each)
    if state.careful:
        state.queue.set_caution(careful=True)


def _copy_accounts(accounts: Accounts) -> Accounts:
    other = copy(accounts)
    other.tenants = dict(accounts.tenants)
    other.held = {name: replace(held) for name, held in accounts.held.items()}
    other.lane_gpus = dict(accounts.lane_gpus)
    return other
