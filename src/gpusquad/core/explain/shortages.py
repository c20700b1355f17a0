"""Which resources a pending gang lacks now, in numbers. Ignores reservations and the order."""

from __future__ import annotations

import numpy as np

from gpusquad.core.capacity.space import Space
from gpusquad.core.explain.obstacles import Obstacle, RelaxedSpaces, real_obstacles
from gpusquad.core.explain.shape_fit import listed, shape_fits, show
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import UNKNOWN_OUTAGE
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.reasons import Reason, ReasonCode
from gpusquad.model.units import show_us
from gpusquad.model.views import Refusal


def shortages(state: SchedulerState, job: Job, until_us: int) -> list[Reason]:
    """Why the gang does not fit from now until ``until_us``. Empty: it fits."""
    reliefs = RelaxedSpaces(state.space, state.timeline.closed_nodes(state.now_us, until_us))
    answer = state.try_place(reliefs.lifted().copy(), job)
    if isinstance(answer, Placement):
        return []
    reasons: list[Reason] = []
    outside: set[Obstacle] = set()
    for shape_fit in shape_fits(state, reliefs, job):
        real = shape_fit.obstacles()
        reasons += shape_fit.reasons(real)
        outside.update(real)
    if not outside:
        outside.update(_obstacles_together(state, reliefs, job))
        reasons += _only_together(reliefs, job, outside, answer)
    if Obstacle.DOWN in outside:
        reasons.append(_down(state))
    if Obstacle.WINDOW in outside:
        reasons.append(_window(state, until_us))
    return reasons


def can_place(state: SchedulerState, space: Space, job: Job) -> bool:
    """Whether the place policy can place the gang. Does not change the space."""
    return isinstance(state.try_place(space.copy(), job), Placement)


# -- all shapes together -------------------------------------------------------------------------------------------


def _only_together(reliefs: RelaxedSpaces, job: Job, real: set[Obstacle], answer: Refusal) -> list[Reason]:
    """Every shape fits alone: the totals of the cluster are short, or the place policy finds no arrangement."""
    free = reliefs.lifted()
    least = [(request, low) for (request, _), (low, _) in zip(job.groups, job.bounds, strict=True)]
    cpu, memory = int(free.node_cpu_free[free.node_up].sum()), int(free.node_memory_free[free.node_up].sum())
    sums = (
        (Obstacle.CARDS, ReasonCode.NO_CARDS, "idle card", sum(low * r.gpus for r, low in least), free.idle_total),
        (Obstacle.CPU, ReasonCode.NO_CPU, "cores", sum(low * r.cpu_milli for r, low in least), cpu),
        (Obstacle.MEMORY, ReasonCode.NO_MEMORY, "memory", sum(low * r.memory_bytes for r, low in least), memory),
    )
    reasons = [
        Reason(code, f"the whole gang needs {show(what, needed)}, {_free(what, there)}", "wait",
               {"needed": needed, "idle" if code is ReasonCode.NO_CARDS else "most": there})
        for obstacle, code, what, needed, there in sums if obstacle in real and needed > there
    ]  # fmt: skip
    if reasons or (real and real <= {Obstacle.DOWN, Obstacle.WINDOW}):
        return reasons
    if answer.code is ReasonCode.INTERFERENCE:
        return [_interference(answer)]
    text = "each role of the gang fits alone, but the place policy cannot place all of them together"
    if len(job.groups) == 1:
        text = "there are enough free resources, but the place policy finds no allowed arrangement"
    return [
        Reason(ReasonCode.PLACE, text, "wait, or use another place policy", {"tasks": sum(low for _, low in least)})
    ]


def _free(what: str, amount: int) -> str:
    shown = show(what, amount)
    return f"{shown} {'is' if shown.startswith('1 ') else 'are'} free"


def _interference(answer: Refusal) -> Reason:
    """There is room, but interference with the neighbours would outweigh the gain."""
    return Reason(
        ReasonCode.INTERFERENCE, f"sharing a card would bring no gain: {answer.note}",
        "wait for an idle card or other neighbours, or use a place policy that ignores interference",
        {"room": answer.number},
    )  # fmt: skip


def _obstacles_together(state: SchedulerState, reliefs: RelaxedSpaces, job: Job) -> list[Obstacle]:
    present = reliefs.present(request for request, _ in job.groups)
    return real_obstacles(present, lambda lifted: can_place(state, reliefs.lifted(lifted), job))


# -- outages and windows -------------------------------------------------------------------------------------------


def _down(state: SchedulerState) -> Reason:
    space, fixed = state.space, state.space.fixed
    nodes = [fixed.node_ids[i] for i in np.flatnonzero(~space.node_up)]
    cards = [fixed.card_ids[i] for i in np.flatnonzero(space.card_broken & space.node_up[fixed.card_node])]
    outages = [state.outages.get(card, UNKNOWN_OUTAGE) for card in cards]
    named = [f"{card} ({known.cause})" if known.cause else card for card, known in zip(cards, outages, strict=True)]
    texts = [f"node {listed(nodes)}"] * bool(nodes) + [f"card {listed(named)}"] * bool(cards)
    cures = dict.fromkeys([known.cure for known in outages if known.cure])
    return Reason(
        ReasonCode.DOWN, f"out of service: {', '.join(texts)}", "; ".join(cures) or "return them to service",
        {"nodes": len(nodes), "cards": len(cards)}, (*nodes, *cards),
    )  # fmt: skip


def _window(state: SchedulerState, until_us: int) -> Reason:
    """Maintenance that is active or would start during the run."""
    now_us = state.now_us
    hit = [w for w in state.timeline.windows if w.start_us < until_us and (w.end_us is None or now_us < w.end_us)]
    nodes = tuple(dict.fromkeys(name for window in hit for name in window.nodes))
    start_us = min(window.start_us for window in hit)
    ahead_us = max(0, start_us - now_us)
    when = f"starts in {show_us(ahead_us)}" if ahead_us else "is active"
    cure = f"a run of at most {show_us(ahead_us)} fits before it" if ahead_us else "wait until it ends"
    return Reason(
        ReasonCode.WINDOW,
        f"maintenance of {listed(nodes)} {when}",
        cure,
        {"ahead_us": ahead_us, "nodes": len(nodes)},
        nodes,
    )
