"""Snapshots: the state at one instant as plain data. A loaded snapshot leads to the same decisions."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np

from gpusquad.core.snapshot.load import (
    load_accounts,
    load_allowed,
    load_health,
    load_queue,
    load_reservations,
    load_runs,
)
from gpusquad.core.snapshot.schema import (
    SavedAccounts,
    SavedPendingJob,
    SavedPin,
    SavedPlacement,
    SavedPolicies,
    SavedReservation,
    SavedRun,
    SavedShapePlacement,
    Snapshot,
)
from gpusquad.core.snapshot.serialization import from_plain, to_plain
from gpusquad.core.state.policies import Policies
from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.runs import Run
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.state.timeline import Pin, Reservation
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import Rate
from gpusquad.model.placement import Placement
from gpusquad.registry import create, find, names

VERSION = 1
_KINDS = ("order", "plan", "place")


def dump_snapshot(state: SchedulerState) -> dict:
    """The state as plain data for JSON."""
    space, fixed, known = state.space, state.space.fixed, (state.queue, state.runs)
    return to_plain(Snapshot(
        version=VERSION, now_us=state.now_us, sequence=state.sequence, settled=state.capacity_unchanged,
        brighter=state.reservations_may_advance,
        any_node_rows=state.runs.any_node_rows, with_rate=state.rate is not None,
        why_moved=state.replan_cause, resizes=state.resizes, careful=state.careful,
        due_until_us=state.due_until_us, decided_us=state.decided_us, suspends=state.suspends,
        committed_us=state.committed_us, places_us=state.places_us, startless_us=state.startless_us,
        pins={job_id: _save_pin(pin) for job_id, pin in state.pins.items()},
        cluster=fixed.cluster, windows=tuple(state.timeline.windows), policies=_save_policies(state.policies),
        pending=tuple(_save_waiting(w) for w in state.queue),
        running=tuple(_save_run(r) for r in state.runs.by_id.values()),
        sharers={fixed.card_ids[card]: tuple(job.id for job in jobs) for card, jobs in space.sharers.items()},
        cards_lost=tuple(fixed.card_ids[i] for i in np.flatnonzero(space.card_broken)),
        outages=state.outages,
        nodes_drained=tuple(fixed.node_ids[i] for i in np.flatnonzero(~space.node_up)),
        promises=tuple(_save_reservation(p) for p in state.timeline.reservations.values()),
        first_promise={i: at_us for i, at_us in state.first_reserved_us.items() if any(i in where for where in known)},
        claims=state.claims,
        allowed={name: tuple(fixed.node_ids[i] for i in np.flatnonzero(mask)) for name, mask in space.allowed.items()},
        foreign={fixed.node_ids[node]: foreign for node, foreign in space.foreign.items()},
        accounts=SavedAccounts(tuple(state.accounts.tenants.values()), state.accounts.held, state.accounts.lane_gpus),
    ))  # fmt: skip


def load_snapshot(data: dict, rate: Rate | None = None) -> SchedulerState:
    """A state that decides like the dumped one, given the same rate function."""
    if not isinstance(data, dict) or "version" not in data:
        raise Invalid("snapshot.version", "is missing", "use a file written by gpusquad")
    if data["version"] != VERSION:
        raise Invalid("snapshot.version", f"{data['version']!r} is unknown", f"this program reads version {VERSION}")
    saved = from_plain(Snapshot, data, "snapshot")
    state = SchedulerState(saved.cluster, _load_policies(saved.policies), saved.windows, rate)
    load_allowed(state, saved)
    load_runs(state, saved)
    load_health(state, saved)
    state.careful, state.due_until_us = saved.careful, saved.due_until_us
    load_queue(state, saved)
    load_reservations(state, saved)
    load_accounts(state, saved.accounts)
    state.now_us, state.sequence = saved.now_us, saved.sequence
    state.capacity_unchanged, state.reservations_may_advance = saved.settled, saved.brighter
    state.replan_cause, state.first_reserved_us = saved.why_moved, dict(saved.first_promise)
    state.resizes, state.suspends, state.decided_us = saved.resizes, saved.suspends, saved.decided_us
    return state


# -- policies ------------------------------------------------------------------------------------------------------


def _save_policies(policies: Policies) -> SavedPolicies:
    texts = {kind: _text_of(kind, getattr(policies, kind), policies.names.get(kind)) for kind in _KINDS}
    return SavedPolicies(**texts, preemption=policies.preemption, lanes=policies.lanes, tenants=policies.tenants,
                         demand=policies.demand, names=policies.names)  # fmt: skip


def _text_of(kind: str, policy: object, text: str | None) -> str:
    """The text a policy was created from; otherwise its registered name and parameters."""
    if text is not None and text.partition(":")[0].strip() in names(kind) and create(kind, text) == policy:
        return text
    name = next((n for n in names(kind) if find(kind, n) is type(policy)), None)
    if name is None:
        raise Invalid(f"policies.{kind}", f"{type(policy).__name__} is not registered", "register it first")
    values = [f"{f.name}={getattr(policy, f.name)}" for f in fields(policy) if f.init] if is_dataclass(policy) else []
    return f"{name}:{','.join(values)}" if values else name


def _load_policies(saved: SavedPolicies) -> Policies:
    made = {kind: create(kind, getattr(saved, kind)) for kind in _KINDS}
    return Policies(**made, preemption=saved.preemption, lanes=saved.lanes, tenants=saved.tenants,
                    demand=saved.demand, names=dict(saved.names))  # fmt: skip


# -- runs, pending jobs, reservations ------------------------------------------------------------------------------


def _save_waiting(waiting: PendingJob) -> SavedPendingJob:
    return SavedPendingJob(
        waiting.job, waiting.prediction, waiting.sequence, waiting.rank[1:-1], waiting.attempt, waiting.kept_us,
        waiting.served_gpu_us, waiting.preemptions, waiting.is_new, waiting.blocked,
    )  # fmt: skip


def _save_run(run: Run) -> SavedRun:
    return SavedRun(
        run.job, _save_placement(run.placement), run.prediction, run.started_us, run.end_us, run.sequence, run.attempt,
        run.kept_us, run.served_gpu_us, run.preemptions, run.leaving, run.slack_us, run.admitted_until_us,
        None if run.shrinks_to is None else _save_placement(run.shrinks_to),
    )  # fmt: skip


def _save_reservation(reservation: Reservation) -> SavedReservation:
    placement = None if reservation.placement is None else _save_placement(reservation.placement)
    return SavedReservation(
        reservation.job.id,
        reservation.start_us,
        reservation.end_us,
        placement,
        reservation.spare_cards,
        reservation.first_us,
        reservation.keeps_cards,
    )


def _save_pin(pin: Pin) -> SavedPin:
    return SavedPin(_save_placement(pin.placement), pin.holders, tuple(sorted(pin.closed)))


def _save_placement(placement: Placement) -> SavedPlacement:
    parts = [
        SavedShapePlacement(p.request_index, tuple(p.nodes.tolist()), tuple(p.cards.tolist())) for p in placement.parts
    ]
    return SavedPlacement(tuple(parts), placement.note)
