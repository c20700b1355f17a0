"""The state at one instant as plain data: dumped in production, loaded elsewhere, decided again with the same outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from gpusquad.core.accounts import Held, Tenant
from gpusquad.core.copies import refill_queue
from gpusquad.core.lanes import Lane
from gpusquad.core.plain import from_plain, to_plain
from gpusquad.core.policies import Policies, Preemption
from gpusquad.core.queue import Waiting, rank_of
from gpusquad.core.runs import Run
from gpusquad.core.space import Space
from gpusquad.core.state import UNKNOWN, State
from gpusquad.core.timeline import Promise
from gpusquad.model.cluster import Cluster, Window
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request
from gpusquad.model.placement import Part, Placement
from gpusquad.model.views import Forecast
from gpusquad.registry import create, find, names

VERSION = 1
_KINDS = ("order", "plan", "place")


@dataclass(frozen=True)
class SavedPart:
    """Tasks of one shape, by index into the cluster's nodes and cards."""

    group: int
    nodes: tuple[int, ...]
    cards: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class SavedPlacement:
    parts: tuple[SavedPart, ...]
    note: str = ""


@dataclass(frozen=True)
class SavedWaiting:
    """A pending job. ``key`` is the order's key when it was last ranked."""

    job: Job
    forecast: Forecast
    sequence: int
    key: tuple[Any, ...]
    attempt: int = 0
    kept_us: int = 0
    served_gpu_us: int = 0
    preemptions: int = 0
    fresh: bool = False
    blocked: bool = False


@dataclass(frozen=True)
class SavedRun:
    job: Job
    placement: SavedPlacement
    forecast: Forecast
    started_us: int
    end_us: int
    sequence: int
    attempt: int = 0
    kept_us: int = 0
    served_gpu_us: int = 0
    preemptions: int = 0
    leaving: bool = False


@dataclass(frozen=True)
class SavedPromise:
    job_id: str
    start_us: int
    end_us: int
    placement: SavedPlacement | None
    spare_cards: int = 0
    first_us: int = 0


@dataclass(frozen=True)
class SavedPolicies:
    """``order``, ``plan`` and ``place`` as text that the registry reads."""

    order: str
    plan: str
    place: str
    preemption: Preemption
    lanes: tuple[Lane, ...]
    tenants: tuple[Tenant, ...]
    demand: tuple[tuple[Request, float], ...]
    names: dict[str, str]


@dataclass(frozen=True)
class SavedAccounts:
    tenants: tuple[Tenant, ...]
    held: dict[str, Held]
    lane_gpus: dict[str, int]


@dataclass(frozen=True)
class Snapshot:
    """Everything that decisions depend on."""

    version: int
    now_us: int
    sequence: int
    settled: bool
    any_node_rows: bool
    why_moved: str
    cluster: Cluster
    windows: tuple[Window, ...]
    policies: SavedPolicies
    pending: tuple[SavedWaiting, ...]
    running: tuple[SavedRun, ...]
    cards_lost: tuple[str, ...]
    nodes_drained: tuple[str, ...]
    promises: tuple[SavedPromise, ...]
    first_promise: dict[str, int]
    claims: dict[str, str]
    accounts: SavedAccounts


def dump_snapshot(state: State) -> dict:
    """Plain data, ready for JSON."""
    space, known = state.space, (state.queue, state.runs)
    return to_plain(Snapshot(
        version=VERSION, now_us=state.now_us, sequence=state.sequence, settled=state.settled,
        any_node_rows=state.runs.any_node_rows, why_moved=state.why_moved,
        cluster=space.fixed.cluster, windows=tuple(state.timeline.windows), policies=_save_policies(state.policies),
        pending=tuple(_save_waiting(w) for w in state.queue),
        running=tuple(_save_run(r) for r in state.runs.by_id.values()),
        cards_lost=tuple(space.fixed.card_ids[i] for i in np.flatnonzero(~space.card_ok)),
        nodes_drained=tuple(space.fixed.node_ids[i] for i in np.flatnonzero(~space.node_up)),
        promises=tuple(_save_promise(p) for p in state.timeline.promises.values()),
        first_promise={i: at_us for i, at_us in state.first_promise.items() if any(i in where for where in known)},
        claims=state.claims,
        accounts=SavedAccounts(tuple(state.accounts.tenants.values()), state.accounts.held, state.accounts.lane_gpus),
    ))  # fmt: skip


def load_snapshot(data: dict) -> State:
    """A state that decides as the dumped one would have."""
    if not isinstance(data, dict) or "version" not in data:
        raise Invalid("snapshot.version", "is missing", "this is no snapshot")
    if data["version"] != VERSION:
        raise Invalid("snapshot.version", f"{data['version']!r} is not known", f"this program reads version {VERSION}")
    saved = from_plain(Snapshot, data, "snapshot")
    state = State(saved.cluster, _load_policies(saved.policies), saved.windows)
    _load_runs(state, saved)
    _load_health(state, saved)
    _load_queue(state, saved)
    _load_promises(state, saved)
    _load_accounts(state, saved.accounts)
    state.now_us, state.sequence, state.settled = saved.now_us, saved.sequence, saved.settled
    state.why_moved, state.first_promise = saved.why_moved, dict(saved.first_promise)
    return state


# -- policies ------------------------------------------------------------------------------------------------------


def _save_policies(policies: Policies) -> SavedPolicies:
    texts = {kind: _text_of(kind, getattr(policies, kind), policies.names.get(kind)) for kind in _KINDS}
    return SavedPolicies(**texts, preemption=policies.preemption, lanes=policies.lanes, tenants=policies.tenants,
                         demand=policies.demand, names=policies.names)  # fmt: skip


def _text_of(kind: str, policy: object, said: str | None) -> str:
    """The text it was made from; for one made by hand its registered name and parameters."""
    if said is not None and said.partition(":")[0].strip() in names(kind) and create(kind, said) == policy:
        return said
    name = next((n for n in names(kind) if find(kind, n) is type(policy)), None)
    if name is None:
        raise Invalid(f"policies.{kind}", f"{type(policy).__name__} is not registered", "register it, then it has a name")
    values = [f"{f.name}={getattr(policy, f.name)}" for f in fields(policy) if f.init] if is_dataclass(policy) else []
    return f"{name}:{','.join(values)}" if values else name


def _load_policies(saved: SavedPolicies) -> Policies:
    made = {kind: create(kind, getattr(saved, kind)) for kind in _KINDS}
    return Policies(**made, preemption=saved.preemption, lanes=saved.lanes, tenants=saved.tenants,
                    demand=saved.demand, names=dict(saved.names))  # fmt: skip


# -- who runs, who waits, who was promised what --------------------------------------------------------------------


def _save_waiting(waiting: Waiting) -> SavedWaiting:
    return SavedWaiting(
        waiting.job, waiting.forecast, waiting.sequence, waiting.rank[1:-1], waiting.attempt, waiting.kept_us,
        waiting.served_gpu_us, waiting.preemptions, waiting.fresh, waiting.blocked,
    )  # fmt: skip


def _save_run(run: Run) -> SavedRun:
    return SavedRun(
        run.job, _save_placement(run.placement), run.forecast, run.started_us, run.end_us, run.sequence, run.attempt,
        run.kept_us, run.served_gpu_us, run.preemptions, run.leaving,
    )  # fmt: skip


def _save_promise(promise: Promise) -> SavedPromise:
    placement = None if promise.placement is None else _save_placement(promise.placement)
    return SavedPromise(promise.job.id, promise.start_us, promise.end_us, placement, promise.spare_cards, promise.first_us)


def _save_placement(placement: Placement) -> SavedPlacement:
    parts = [SavedPart(p.request_index, tuple(p.nodes.tolist()), tuple(p.cards.tolist())) for p in placement.parts]
    return SavedPlacement(tuple(parts), placement.note)


def _load_runs(state: State, saved: Snapshot) -> None:
    for i, each in enumerate(saved.running):
        where = f"snapshot.running[{i}]"
        _check_new(each.job.id, state, where)
        placement = _load_placement(each.placement, each.job, state.space, f"{where}.placement")
        _check_free(state.space, each.job, placement, where)
        state.space.take(each.job, placement)
        state.runs.add(Run(
            each.job, placement, _known(each.forecast), each.started_us, each.end_us, each.sequence, each.attempt,
            each.kept_us, each.served_gpu_us, each.preemptions, each.leaving,
        ))  # fmt: skip
    state.runs.any_node_rows = saved.any_node_rows


def _load_health(state: State, saved: Snapshot) -> None:
    fixed = state.space.fixed
    for card in saved.cards_lost:
        state.space.set_card_ok(_index(fixed.card_index, card, "snapshot.cards_lost"), False)
    for node in saved.nodes_drained:
        state.space.set_node_up(_index(fixed.node_index, node, "snapshot.nodes_drained"), False)


def _load_queue(state: State, saved: Snapshot) -> None:
    waiting: dict[str, Waiting] = {}
    for i, each in enumerate(saved.pending):
        if each.job.id in waiting:
            raise Invalid(f"snapshot.pending[{i}].job.id", f"{each.job.id!r} is there twice")
        _check_new(each.job.id, state, f"snapshot.pending[{i}]")
        one = Waiting(
            each.job, _known(each.forecast), state.shape_of(each.job), each.sequence, each.attempt, each.kept_us,
            each.served_gpu_us, each.preemptions, each.fresh, each.blocked,
        )  # fmt: skip
        one.rank = rank_of(one, lambda _, key=each.key: key)
        waiting[each.job.id] = one
    refill_queue(state, list(waiting.values()))


def _load_promises(state: State, saved: Snapshot) -> None:
    for i, each in enumerate(saved.promises):
        where = f"snapshot.promises[{i}]"
        if each.job_id not in state.queue:
            raise Invalid(f"{where}.job_id", f"{each.job_id!r} does not wait")
        job, placement = state.queue[each.job_id].job, None
        if each.placement is not None:
            placement = _load_placement(each.placement, job, state.space, f"{where}.placement")
        state.timeline.promises[job.id] = Promise(
            job, each.start_us, each.end_us, placement, each.spare_cards, each.first_us
        )
    for job_id in saved.claims:
        if job_id not in state.queue:
            raise Invalid("snapshot.claims", f"{job_id!r} does not wait")
    state.claims = dict(saved.claims)


def _load_placement(saved: SavedPlacement, job: Job, space: Space, where: str) -> Placement:
    parts = []
    for i, each in enumerate(saved.parts):
        at = f"{where}.parts[{i}]"
        if not 0 <= each.group < len(job.groups):
            raise Invalid(f"{at}.group", f"{each.group} is none of the {len(job.groups)} shapes of {job.id}")
        per_task = job.groups[each.group][0].cards
        if len(each.cards) != len(each.nodes) or any(len(row) != per_task for row in each.cards):
            raise Invalid(f"{at}.cards", f"expected {per_task} for each of {len(each.nodes)} tasks")
        nodes = np.array(each.nodes, dtype=np.int64)
        cards = np.array(each.cards, dtype=np.int64).reshape(len(nodes), per_task)
        _check_indexes(nodes, cards, space, at)
        parts.append(Part(each.group, nodes, cards))
    return Placement(tuple(parts), saved.note)


def _load_accounts(state: State, saved: SavedAccounts) -> None:
    state.accounts.tenants = {tenant.name: tenant for tenant in saved.tenants}
    state.accounts.held = dict(saved.held)
    state.accounts.lane_gpus = dict(saved.lane_gpus)


# -- checks --------------------------------------------------------------------------------------------------------


def _known(forecast: Forecast) -> Forecast:
    """The one object that stands for no forecast: the core tells it by identity."""
    return UNKNOWN if forecast == UNKNOWN else forecast


def _index(index: dict[str, int], name: str, where: str) -> int:
    if name not in index:
        raise Invalid(where, f"there is no {name!r}")
    return index[name]


def _check_new(job_id: str, state: State, where: str) -> None:
    if job_id in state.runs:
        raise Invalid(f"{where}.job.id", f"{job_id!r} is there twice")


def _check_indexes(nodes: np.ndarray, cards: np.ndarray, space: Space, where: str) -> None:
    fixed = space.fixed
    for name, indexes, count in (("nodes", nodes, len(fixed.node_ids)), ("cards", cards, len(fixed.card_ids))):
        if indexes.size and not 0 <= indexes.min() <= indexes.max() < count:
            raise Invalid(f"{where}.{name}", f"has an index outside the {count} of the cluster")
    if (fixed.card_node[cards] != nodes[:, None]).any():
        raise Invalid(f"{where}.cards", "lie on other nodes than the tasks")


def _check_free(space: Space, job: Job, placement: Placement, where: str) -> None:
    """Whole cards are held by one gang only; shares may be over-committed by the policy that placed them."""
    whole = [p.cards.ravel() for p in placement.parts if job.groups[p.request_index][0].gpus]
    taken = [card for cards in whole for card in cards if not space.card_idle[card]]
    if taken or _has_twice(whole):
        raise Invalid(f"{where}.placement", "holds a card twice, or one that another gang holds")


def _has_twice(rows: Iterable[np.ndarray]) -> bool:
    cards = [int(card) for row in rows for card in row]
    return len(set(cards)) < len(cards)
