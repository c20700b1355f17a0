"""Restores a state from a checked snapshot and refuses contradictions."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gpusquad.core.capacity.capacity import summed_load
from gpusquad.core.capacity.space import Space
from gpusquad.core.planning.openings import open_until_us
from gpusquad.core.snapshot.schema import SavedAccounts, SavedPlacement, Snapshot
from gpusquad.core.state.queue import PendingJob, rank_of
from gpusquad.core.state.runs import FOREVER_US, Run
from gpusquad.core.state.state import UNKNOWN, SchedulerState
from gpusquad.core.state.state_copy import refill_queue
from gpusquad.core.state.timeline import Pin, Reservation
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement, ShapePlacement
from gpusquad.model.views import RunTimePrediction


def load_runs(state: SchedulerState, saved: Snapshot) -> None:
    for i, each in enumerate(saved.running):
        where = f"snapshot.running[{i}]"
        _check_new(each.job.id, state, where)
        placement = _load_placement(each.placement, each.job, state.space, f"{where}.placement")
        _check_free(state.space, each.job, placement, where)
        state.space.take(each.job, placement)
        state.runs.add(Run(
            each.job, placement, _known(each.forecast), each.started_us, each.end_us, each.sequence,
            state.lane(each.job), each.attempt, each.kept_us, each.served_gpu_us, each.preemptions, each.leaving,
            slack_us=each.slack_us,
            admitted_until_us=FOREVER_US if each.admitted_until_us is None else each.admitted_until_us,
            shrinks_to=_load_if_any(each.shrinks_to, each.job, state.space, f"{where}.shrinks_to"),
        ))  # fmt: skip
    state.runs.any_node_rows = saved.any_node_rows
    _load_sharers(state, saved)


def _load_sharers(state: SchedulerState, saved: Snapshot) -> None:
    """Restore the order of the sharers. A gang that grew kept its position on its old cards but is the newest run."""
    space = state.space
    for name, order in saved.sharers.items():
        card = _index(space.fixed.card_index, name, "snapshot.sharers")
        if sorted(order) != sorted(job.id for job in space.sharers.get(card, ())):
            raise Invalid(f"snapshot.sharers.{name}", "does not list the jobs that share the card")
        space.sharers[card] = tuple(state.runs[job_id].job for job_id in order)
        space.card_load[card] = summed_load(space.sharers[card])


def load_health(state: SchedulerState, saved: Snapshot) -> None:
    fixed = state.space.fixed
    for card in saved.cards_lost:
        state.space.set_card_ok(_index(fixed.card_index, card, "snapshot.cards_lost"), False)
    state.outages = dict(saved.outages)
    for node in saved.nodes_drained:
        state.space.set_node_up(_index(fixed.node_index, node, "snapshot.nodes_drained"), False)
    for node, foreign in saved.foreign.items():
        state.space.set_foreign(_index(fixed.node_index, node, "snapshot.foreign"), foreign)


def load_allowed(state: SchedulerState, saved: Snapshot) -> None:
    index, allowed = state.space.fixed.node_index, {}
    for name, nodes in saved.allowed.items():
        allowed[name] = np.zeros(len(index), dtype=bool)
        allowed[name][[_index(index, node, f"snapshot.allowed.{name}") for node in nodes]] = True
    state.space.set_allowed(allowed)


def load_queue(state: SchedulerState, saved: Snapshot) -> None:
    waiting: dict[str, PendingJob] = {}
    for i, each in enumerate(saved.pending):
        if each.job.id in waiting:
            raise Invalid(f"snapshot.pending[{i}].job.id", f"{each.job.id!r} occurs twice")
        _check_new(each.job.id, state, f"snapshot.pending[{i}]")
        one = PendingJob(
            each.job, _known(each.forecast), state.shape_of(each.job), each.sequence, state.lane(each.job),
            each.attempt, each.kept_us, each.served_gpu_us, each.preemptions, each.fresh, each.blocked,
        )  # fmt: skip
        one.rank = rank_of(one, lambda _, key=each.key: key)
        waiting[each.job.id] = one
    refill_queue(state, list(waiting.values()))


def load_reservations(state: SchedulerState, saved: Snapshot) -> None:
    for i, each in enumerate(saved.promises):
        where = f"snapshot.promises[{i}]"
        if each.job_id not in state.queue:
            raise Invalid(f"{where}.job_id", f"{each.job_id!r} is not pending")
        job = state.queue[each.job_id].job
        placement = _load_if_any(each.placement, job, state.space, f"{where}.placement")
        state.timeline.reservations[job.id] = Reservation(
            job, each.start_us, each.end_us, placement, each.spare_cards, each.first_us, keeps_cards=each.keeps_cards
        )
    _load_commitments(state, saved)
    for job_id, reservation in state.timeline.reservations.items():
        reservation.pin = state.pins.get(job_id)
        reservation.open_until_us = open_until_us(state, reservation)
    for job_id in saved.claims:
        if job_id not in state.queue:
            raise Invalid("snapshot.claims", f"{job_id!r} is not pending")
    state.claims = dict(saved.claims)


def _load_commitments(state: SchedulerState, saved: Snapshot) -> None:
    for job_id in (*saved.committed_us, *saved.places_us, *saved.startless_us, *saved.pins):
        if job_id not in state.queue:
            raise Invalid("snapshot.committed_us", f"{job_id!r} is not pending")
    state.now_us, state.committed_us = saved.now_us, dict(saved.committed_us)
    state.places_us, state.startless_us = dict(saved.places_us), dict(saved.startless_us)
    for job_id, pin in saved.pins.items():
        placement = _load_placement(pin.placement, state.queue[job_id].job, state.space, f"snapshot.pins.{job_id}")
        state.pins[job_id] = Pin(placement, pin.holders, frozenset(pin.closed))


def _load_if_any(saved: SavedPlacement | None, job: Job, space: Space, where: str) -> Placement | None:
    return None if saved is None else _load_placement(saved, job, space, where)


def _load_placement(saved: SavedPlacement, job: Job, space: Space, where: str) -> Placement:
    parts = []
    for i, each in enumerate(saved.parts):
        at = f"{where}.parts[{i}]"
        if not 0 <= each.group < len(job.groups):
            raise Invalid(f"{at}.group", f"{each.group} is not one of the {len(job.groups)} shapes of {job.id}")
        per_task = job.groups[each.group][0].cards
        if len(each.cards) != len(each.nodes) or any(len(row) != per_task for row in each.cards):
            raise Invalid(f"{at}.cards", f"expected {per_task} for each of {len(each.nodes)} tasks")
        nodes = np.array(each.nodes, dtype=np.int64)
        cards = np.array(each.cards, dtype=np.int64).reshape(len(nodes), per_task)
        _check_indexes(nodes, cards, space, at)
        parts.append(ShapePlacement(each.group, nodes, cards))
    return Placement(tuple(parts), saved.note)


def load_accounts(state: SchedulerState, saved: SavedAccounts) -> None:
    state.accounts.tenants = {tenant.name: tenant for tenant in saved.tenants}
    state.accounts.held = dict(saved.held)
    state.accounts.lane_gpus = dict(saved.lane_gpus)


# -- checks --------------------------------------------------------------------------------------------------------


def _known(forecast: RunTimePrediction) -> RunTimePrediction:
    """Replace an equal prediction by ``UNKNOWN``, which the core compares by identity."""
    return UNKNOWN if forecast == UNKNOWN else forecast


def _index(index: dict[str, int], name: str, where: str) -> int:
    if name not in index:
        raise Invalid(where, f"{name!r} does not exist")
    return index[name]


def _check_new(job_id: str, state: SchedulerState, where: str) -> None:
    if job_id in state.runs:
        raise Invalid(f"{where}.job.id", f"{job_id!r} occurs twice")


def _check_indexes(nodes: np.ndarray, cards: np.ndarray, space: Space, where: str) -> None:
    fixed = space.fixed
    for name, indexes, count in (("nodes", nodes, len(fixed.node_ids)), ("cards", cards, len(fixed.card_ids))):
        if indexes.size and not 0 <= indexes.min() <= indexes.max() < count:
            raise Invalid(f"{where}.{name}", f"has an index outside the {count} of the cluster")
    if (fixed.card_node[cards] != nodes[:, None]).any():
        raise Invalid(f"{where}.cards", "are not on the nodes of the tasks")


def _check_free(space: Space, job: Job, placement: Placement, where: str) -> None:
    """Check that whole cards are held by one gang only. A place policy may overcommit shares."""
    whole = [p.cards.ravel() for p in placement.parts if job.groups[p.request_index][0].gpus]
    taken = [card for cards in whole for card in cards if not space.card_idle[card]]
    if taken or _has_twice(whole):
        raise Invalid(f"{where}.placement", "holds a card twice, or one that another gang holds")


def _has_twice(rows: Iterable[np.ndarray]) -> bool:
    cards = [int(card) for row in rows for card in row]
    return len(set(cards)) < len(cards)
