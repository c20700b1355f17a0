"""Elastic gangs grow into idle capacity and shrink when jobs are pending.

Growing takes capacity at once, like a start. Shrinking releases it only when the engine reports ``GangResized``: tasks
that are being stopped hold their cards until they have ended.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpusquad.core.capacity.trial import SpaceTrial
from gpusquad.core.planning.slowdown import reservation_between
from gpusquad.core.state.limits import headroom
from gpusquad.core.state.runs import Run, tasks_in
from gpusquad.core.state.state import SchedulerState, cards_of
from gpusquad.model.decision import Decision, Resize
from gpusquad.model.placement import Placement, ShapePlacement


def resize(state: SchedulerState) -> Iterator[Decision]:
    """Grow or shrink elastic gangs."""
    if not state.resizes:
        return
    elastic = [run for run in state.runs.elastic.values() if not run.leaving and run.shrinks_to is None]
    if not elastic:
        return
    if len(state.queue):
        yield from _shrink_for_first(state, elastic)
        return
    for run in sorted(elastic, key=lambda run: run.sequence):
        yield from _grow(state, run)


def apply_shrink(state: SchedulerState, job_id: str) -> None:
    """Release the tasks of a shrunk gang, which have ended."""
    run = state.runs[job_id]
    placement = run.shrinks_to
    assert placement is not None
    state.space.release(run.job, run.placement)
    state.space.take(run.job, placement)
    _swap(state, run, placement)
    run.shrinks_to = None
    state.rebuild_reservations(f"{job_id} was shrunk")


def _grow(state: SchedulerState, run: Run) -> Iterator[Decision]:
    counts, left = [], headroom(state, run.job)
    for part, (_, high) in zip(run.placement.parts, run.job.bounds, strict=True):
        request = run.job.groups[part.request_index][0]
        more = min(high - len(part.nodes), state.space.total_room(request))
        more = max(0, min(more, left // request.cards if request.cards else more))
        left -= more * request.cards
        counts.append(more)
    if not any(count > 0 for count in counts):
        return
    more = _place_more(state, run, counts)
    if more is None:
        return
    extra = {part.request_index: part for part in more.parts}
    placement = Placement(tuple(_joined(part, extra.get(part.request_index)) for part in run.placement.parts))
    cause = f"grows from {tasks_in(run.placement)} to {tasks_in(placement)} tasks: no job is pending"
    _swap(state, run, placement)
    state.reservations_may_advance = True  # it ends sooner now
    yield Resize(run.job.id, placement, cause)


def _place_more(state: SchedulerState, run: Run, counts: list[int]) -> Placement | None:
    """Place further tasks on nodes without maintenance during the run."""
    closes = state.timeline.closed_nodes(state.now_us, run.end_us) if state.timeline.windows else []
    space = state.timeline.available(state.now_us, run.end_us, state.now_us, []) if closes else state.space
    trial = SpaceTrial(space, run.job, state.policies.demand, counts, rate=state.rate, left_us=state.left_us)
    more = state.policies.place.propose(run.job, trial)
    if not isinstance(more, Placement):
        return None
    if space is not state.space:
        state.space.take(run.job, more)
    return more


def _shrink_for_first(state: SchedulerState, elastic: list[Run]) -> Iterator[Decision]:
    """Shrink elastic gangs to their minimum, one after another, if that makes the head of the queue fit."""
    first = next((w for w in state.queue if not w.blocked and w.job.id not in state.claims), None)
    if first is None or any(run.shrinks_to is not None for run in state.runs.elastic.values()):
        return
    space = state.space.copy()
    chosen: list[tuple[Run, Placement]] = []
    for run in sorted(elastic, key=lambda run: -run.sequence):
        least = _least(run)
        if tasks_in(least) == tasks_in(run.placement) or _would_delay_reservation(state, run, least, first.job.id):
            continue
        space.release(run.job, run.placement)
        space.take(run.job, least)
        chosen.append((run, least))
        if space.fits(first.job):
            break
    else:
        return
    for run, least in chosen:
        run.shrinks_to = least
        yield Resize(run.job.id, least, f"releases tasks so that {first.job.id} can start")


def _would_delay_reservation(state: SchedulerState, run: Run, least: Placement, but: str) -> bool:
    """Whether a reservation relies on its cards in the additional time it needs with fewer tasks."""
    others = [p for p in state.timeline.reservations.values() if p.job.id != but]
    slowed_us = state.now_us + max(0, run.end_us - state.now_us) * tasks_in(run.placement) // tasks_in(least)
    return reservation_between(others, run.end_us, slowed_us, run.job, least) is not None


def _least(run: Run) -> Placement:
    """Placement of the gang with its minimum number of tasks. The tasks placed first stay."""
    parts = []
    for part, (low, _) in zip(run.placement.parts, run.job.bounds, strict=True):
        keep = min(low, len(part.nodes))
        parts.append(ShapePlacement(part.request_index, part.nodes[:keep], part.cards[:keep]))
    return Placement(tuple(parts))


def _joined(part: ShapePlacement, more: ShapePlacement | None) -> ShapePlacement:
    if more is None:
        return part
    return ShapePlacement(
        part.request_index, np.concatenate((part.nodes, more.nodes)), np.concatenate((part.cards, more.cards))
    )


def _swap(state: SchedulerState, run: Run, placement: Placement) -> None:
    """Change the placement of a run. The remaining time scales inversely with the number of tasks."""
    before, after = tasks_in(run.placement), tasks_in(placement)
    lane = run.lane.name
    state.accounts.change(run.job, cards_of(run.placement), lane, state.now_us, -1)
    state.accounts.change(run.job, cards_of(placement), lane, state.now_us, +1)
    state.runs.remove(run.job.id)
    left_us = max(0, run.end_us - state.now_us)
    run.slack_us = min(run.slack_us, left_us) * before // after
    run.end_us = state.now_us - (-left_us * before // after)  # rounded up: a reservation may rely on it
    run.placement = placement
    state.runs.add(run)
