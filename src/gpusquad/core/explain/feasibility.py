"""Infeasible jobs, refused at submission: why no state of the configured cluster can run them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpusquad.core.capacity.space import Space
from gpusquad.core.explain.shape_fit import show
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import is_model
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request
from gpusquad.model.placement import Ints
from gpusquad.model.reasons import Reason, ReasonCode
from gpusquad.model.units import at_most_bytes, show_bytes, show_count

_MAY_BE_LIFTED = frozenset({ReasonCode.TENANT_LIMIT, ReasonCode.LANE_LIMIT})


def refusal(state: SchedulerState, job: Job, comes_back: bool = False) -> Reason | None:
    """The reason to refuse the gang. None: feasible. A requeued job (``comes_back``) waits for limits to be raised
    again, but not for nodes that do not exist."""
    ruled_out = _by_rules(state, job)
    if ruled_out is not None and not (comes_back and ruled_out.code in _MAY_BE_LIFTED):
        return ruled_out
    return None if state.can_ever_run(job) else _as_built(state, job)


def why_never(state: SchedulerState, job: Job) -> Reason:
    """The first reason why the gang cannot run on the configured cluster, healthy and empty."""
    return _by_rules(state, job) or _as_built(state, job)


def _as_built(state: SchedulerState, job: Job) -> Reason:
    """What the hardware of the cluster lacks for it."""
    space = Space(state.space.fixed)
    space.allowed = state.space.allowed
    for (request, _), (low, _) in zip(job.groups, job.bounds, strict=True):
        for reason in _one_shape(space, request, low):
            return reason
    for reason in _sums(space, job):
        return reason
    return _never("the place policy cannot place it on the idle cluster", "request less, or use another place policy")


def _by_rules(state: SchedulerState, job: Job) -> Reason | None:
    """Limits by configuration: lanes and tenants."""
    try:
        lane = state.lane(job)
    except Invalid as error:
        return _never(f"{error.field}: {error.problem}", error.cure)
    least, cards = job.gang.min_gpus, len(state.space.fixed.card_ids)
    tenant = state.accounts.tenants.get(job.tenant)
    if tenant is not None and tenant.limit_gpus is not None and least > tenant.limit_gpus:
        return Reason(
            ReasonCode.TENANT_LIMIT,
            f"requests {show_count(least, 'GPU')}; the limit of tenant {tenant.name} is {tenant.limit_gpus}",
            "request less, or ask for a higher limit", {"asked": least, "limit": tenant.limit_gpus},
        )  # fmt: skip
    limit = int(lane.limit_ratio * cards)
    if lane.limit_ratio < 1 and least > limit:
        return Reason(
            ReasonCode.LANE_LIMIT,
            f"requests {show_count(least, 'GPU')}; the limit of lane {lane.name} is {limit} of {cards}",
            "request less, or choose another lane",
            {"asked": least, "limit": limit},
        )
    return None


def _one_shape(space: Space, request: Request, tasks: int) -> Iterator[Reason]:
    """Problems of the request itself, then of the number of tasks."""
    if request.cards:
        yield from _no_such_card(space, request)
    yield from _too_much_for_a_node(space, request)
    yield from _nowhere_to_go(space, request)
    room = space.total_room(request)
    if not room:
        yield _never(f"no node has {_wants(request)} together, even when idle", "request less of one of them")
    if room < tasks:
        yield _never(
            f"the gang has {tasks} tasks; the idle cluster has room for {room}",
            f"request at most {show_count(room, 'task')}", asked=tasks, most=room,
        )  # fmt: skip


def _no_such_card(space: Space, request: Request) -> Iterator[Reason]:
    fixed = space.fixed
    if request.card is not None and request.card not in fixed.card_index:
        yield _never(f"card {request.card!r} does not exist", "omit the card, or look up its name")
    if not fixed.card_ids:
        yield _never("requests GPUs; the cluster has none", "request CPU and memory only", asked=request.cards, most=0)
    if request.gpu_models and not any(is_model(name, asked) for name in fixed.models for asked in request.gpu_models):
        models = " or ".join(request.gpu_models)
        yield _never(f"requests GPU model {models}; the cluster has {', '.join(fixed.models)}", "choose one of those")
    wanted = request.share.memory_bytes if request.share else request.min_card_memory_bytes
    largest = int(fixed.card_memory[_of_its_kind(space, request)].max(initial=0))
    field = "share.memory" if request.share else "gpu_memory"
    if wanted and not largest:
        unknown = f"the memory size of the cards{_whose(request)} is unknown"
        yield _never(
            f"{field}: requests a card with {show_bytes(wanted)}; {unknown}",
            "request a percentage of it: 30%" if request.share else "omit it", asked=wanted,
        )  # fmt: skip
    elif wanted > largest:
        asked, there = _distinct(wanted, largest)
        yield _never(
            f"{field}: requests a card with {asked}; the largest{_whose(request)} has {there}",
            f"request at most {at_most_bytes(largest)}", asked=wanted, most=largest,
        )  # fmt: skip


def _too_much_for_a_node(space: Space, request: Request) -> Iterator[Reason]:
    fixed = space.fixed
    if request.gpus:
        kind = fixed.eligible_cards(request)
        largest = int(np.bincount(fixed.card_node, weights=kind, minlength=1).max(initial=0))
        if not largest and fixed.needs_whole(request):
            whose, asked = "container" if request.gpus_together else "task", request.cards_at_once
            yield _never(
                f"gpus: requests {asked} virtual cards per {whose}; at most one is possible",
                f"request gpus: 1 per {whose}, and more of them", asked=asked, most=1,
            )  # fmt: skip
        if request.gpus > largest:
            asked_for = show_count(request.gpus, "GPU")
            yield _never(
                f"requests {asked_for} on one node; the largest node{_whose(request)} has {largest}",
                f"request at most {largest} per task, and more tasks", asked=request.gpus, most=largest,
            )  # fmt: skip
    extras = {name: fixed.node_extras[row] for name, row in fixed.extra_index.items()}
    nothing = np.zeros(1, dtype=np.int64)
    for what, asked, there in (
        ("cores", request.cpu_milli, fixed.node_cpu), ("memory", request.memory_bytes, fixed.node_memory),
        *((name, amount, extras.get(name, nothing)) for name, amount in request.extras),
    ):  # fmt: skip
        most = int(there.max(initial=0))
        if asked > most:
            yield _never(
                f"requests {show(what, asked)} per task; the largest node has {show(what, most)}",
                f"request at most {show(what, most)}", asked=asked, most=most,
            )  # fmt: skip


def _nowhere_to_go(space: Space, request: Request) -> Iterator[Reason]:
    if request.where and not space.allowed.get(request.where, np.False_).any():
        nodes = len(space.node_up)
        which = f"none of the {nodes} nodes is" if nodes > 1 else "the only node is not"
        why = space.allowed.why_none(request.where)
        yield _never(f"{which} allowed{f': {why}' if why else ''}", "allow more nodes", asked=1, most=0)


def _sums(space: Space, job: Job) -> Iterator[Reason]:
    """Each shape fits alone, but the total may exceed the cluster."""
    least = [(request, low) for (request, _), (low, _) in zip(job.groups, job.bounds, strict=True)]
    fixed = space.fixed
    for what, asked, most in (
        ("GPU", sum(low * r.gpus for r, low in least), len(fixed.card_ids)),
        ("cores", sum(low * r.cpu_milli for r, low in least), int(fixed.node_cpu.sum())),
        ("memory", sum(low * r.memory_bytes for r, low in least), int(fixed.node_memory.sum())),
    ):
        if asked > most:
            yield _never(
                f"the gang requests {show(what, asked)} in total; the cluster has {show(what, most)}",
                "request fewer tasks", asked=asked, most=most,
            )  # fmt: skip


def _of_its_kind(space: Space, request: Request) -> Ints:
    """Cards of the requested models, of any size."""
    fixed = space.fixed
    if not request.gpu_models:
        return np.arange(len(fixed.card_ids))
    wanted = [i for i, name in enumerate(fixed.models) if any(is_model(name, asked) for asked in request.gpu_models)]
    return np.flatnonzero(np.isin(fixed.card_model, wanted))


def _distinct(one: int, other: int) -> tuple[str, str]:
    """Both amounts in short form, or in bytes if the short forms are equal."""
    shown = show_bytes(one), show_bytes(other)
    return shown if shown[0] != shown[1] else (f"{one} bytes", f"{other} bytes")


def _whose(request: Request) -> str:
    return f" with {' or '.join(request.gpu_models)}" if request.gpu_models else ""


def _wants(request: Request) -> str:
    parts = [show_count(request.gpus, "GPU")] * bool(request.gpus) + ["the card"] * bool(request.share)
    parts += [show("cores", request.cpu_milli)] * bool(request.cpu_milli)
    return ", ".join(parts + [show("memory", request.memory_bytes)] * bool(request.memory_bytes))


def _never(message: str, cure: str, **numbers: float) -> Reason:
    return Reason(ReasonCode.NEVER_FITS, message, cure, numbers)
