"""Victims: the runs whose preemption loses the least work.

Sets of victims are compared by their highest priority, then by the GPU time that they lose, then by number of victims
and of cards. The priority comes first, because a victim of a higher one would go on to preempt those below it.

Candidates are removed in two orders (cheapest first, and node by node), and those that were not needed are kept. Then
cheaper sets are tried, the cheapest first, up to a limit. So the result is the best one for few candidates, and a good
one for many.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpusquad.core.capacity.space import Space
from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.runs import NEVER_US, Run, after_us
from gpusquad.core.state.state import SchedulerState, cards_of
from gpusquad.model.placement import Placement
from gpusquad.model.units import US_PER_S

MAX_TRIALS = 128
"""Cheaper sets that are tried for one job."""
BLIND_TRIALS = 64
"""Sets that are tried where the rule allows none of those that were found otherwise."""
MAX_SETS = 4096
"""Cheaper sets that are looked at. Most of them have too few cards, which costs no trial."""

Allows = Callable[[Sequence[Run]], bool]


@dataclass(frozen=True, slots=True)
class PreemptionRule:
    """Which runs a pending job may preempt, and by which rule."""

    name: str
    victims: list[Run]
    allows: Allows | None = None
    """Whether the rule allows to preempt all of these. Then it allows every part of them. None: any."""


class Cost(NamedTuple):
    """Cost of preempting some runs."""

    lost_gpu_us: int
    victims: int
    cards: int


def lost_us(state: SchedulerState, run: Run) -> int:
    """Time that a gang loses if it is preempted now: its work since the last checkpoint, and the restart. Only the
    restart, if the engine can suspend it."""
    checkpoint = run.job.checkpoint
    return checkpoint.restart_us + (0 if state.suspends else _unsaved_us(run, state.now_us))


def may_leave_us(state: SchedulerState, run: Run) -> int:
    """When the run may next be preempted by the rules of the mode and of its lane. Now or earlier: already."""
    rule, lane, every_us = state.policies.preemption, run.lane, run.job.checkpoint.every_us
    if not lane.preemptible or run.preemptions >= rule.most_per_job or not run.job.checkpoint.preemptible:
        return NEVER_US
    ready_us = run.started_us + round(rule.min_run_s * US_PER_S)
    if lane.max_lost_s is None or state.suspends:
        return ready_us
    if every_us is None:
        return NEVER_US
    at_us = max(ready_us, state.now_us)
    unsaved_us = _unsaved_us(run, at_us)
    return at_us if unsaved_us <= lane.max_lost_s * US_PER_S else at_us + every_us - unsaved_us


def choose_victims(state: SchedulerState, waiting: PendingJob, rule: PreemptionRule) -> list[Run]:
    """The runs to preempt so that the pending gang fits. Empty: none."""
    search, levels = _Search(state, waiting, rule.allows), sorted({run.job.priority_level for run in rule.victims})
    at = bisect_left(levels, True, key=lambda level: search.works(_up_to(level, rule.victims)))
    found = (search.cheapest(_up_to(level, rule.victims)) for level in levels[at:])
    return next(filter(None, found), [])


def open_space(state: SchedulerState, waiting: PendingJob) -> Space:
    """Capacity free now on nodes without maintenance during the stay of the gang."""
    space = state.space.copy()
    if state.timeline.windows:
        closed = state.timeline.closed_nodes(state.now_us, after_us(state.now_us, waiting.stay_us))
        space.hide(np.array(closed, dtype=np.int64))
    return space


def can_place(state: SchedulerState, space: Space, waiting: PendingJob) -> bool:
    """Whether the gang finds a place. The space is left as it was."""
    placement = state.try_place(space, waiting.job) if space.fits(waiting.job) else None
    if isinstance(placement, Placement):
        space.release(waiting.job, placement)
        return True
    return False


def _up_to(level: int, runs: Iterable[Run]) -> list[Run]:
    return [run for run in runs if run.job.priority_level <= level]


def _whole_cards(waiting: PendingJob) -> int:
    """Idle cards without which the gang cannot start. Shares may also find room on other cards."""
    return 0 if waiting.job.has_shares else waiting.job.gang.min_gpus


def _unsaved_us(run: Run, now_us: int) -> int:
    ran_us, every_us = now_us - run.started_us, run.job.checkpoint.every_us
    return ran_us % every_us if every_us else ran_us


class _Search:
    """Sets of victims for one pending gang."""

    def __init__(self, state: SchedulerState, waiting: PendingJob, allows: Allows | None) -> None:
        self._state = state
        self._waiting = waiting
        self._allows = allows
        self._space = open_space(state, waiting)
        self._known: dict[str, Cost] = {}

    def cheapest(self, pool: list[Run]) -> list[Run]:
        pool = sorted(pool, key=lambda run: (self._cost(run), -run.started_us, run.sequence))
        found = [victims for order in (pool, self._node_by_node(pool)) if (victims := self._enough(order))]
        best = min(found, key=self._cost_of, default=[])
        for victims in self._cheaper(pool, self._cost_of(best) if best else None):
            if self.works(victims):
                return victims
        return best

    def works(self, victims: Sequence[Run]) -> bool:
        """Whether the gang fits without them."""
        space = self._space
        if self._state.space.idle_total + sum(cards_of(run.placement) for run in victims) < _whole_cards(self._waiting):
            return False
        for run in victims:
            space.release(run.job, run.placement)
        works = can_place(self._state, space, self._waiting)
        for run in victims:
            space.take(run.job, run.placement)
        return works

    def _enough(self, order: Iterable[Run]) -> list[Run]:
        """The first of these runs that suffice, without those that are not needed. Empty: they do not suffice."""
        order = self._allowed(order)
        if not self.works(order):
            return []
        low, high = 1, len(order)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.works(order[:middle]) else (middle + 1, high)
        needed = order[:high]
        for run in sorted(needed, key=self._cost, reverse=True):
            others = [other for other in needed if other is not run]
            if others and self.works(others):
                needed = others
        return needed

    def _allowed(self, order: Iterable[Run]) -> list[Run]:
        if self._allows is None:
            return list(order)
        allowed: list[Run] = []
        for run in order:
            if self._allows([*allowed, run]):
                allowed.append(run)
        return allowed

    def _node_by_node(self, pool: Iterable[Run]) -> list[Run]:
        """The runs of the node that loses least first, so that large tasks find whole nodes. Each run once."""
        on_node: dict[int, list[Run]] = {}
        for run in pool:
            for node in dict.fromkeys(int(node) for node in run.placement.all_nodes()):
                on_node.setdefault(node, []).append(run)
        task_gpus = max(request.gpus for request, _ in self._waiting.job.groups)
        idle = self._state.space.node_idle
        parts = [_first_cards(runs, task_gpus - int(idle[node])) for node, runs in on_node.items()]
        parts.sort(key=self._cost_of)
        return list({run.job.id: run for part in [*parts, pool] for run in part}.values())

    def _cheaper(self, pool: Sequence[Run], than: Cost | None) -> Iterator[list[Run]]:
        """Allowed sets with enough cards that cost less, the cheapest first, within the limits."""
        idle, needed = self._state.space.idle_total, _whole_cards(self._waiting)
        trials, most = 0, BLIND_TRIALS if than is None else MAX_TRIALS
        for victims in _by_cost(pool, [self._cost(run) for run in pool]):
            cost = self._cost_of(victims)
            if trials == most or (than is not None and cost >= than):
                return
            if idle + cost.cards >= needed and (self._allows is None or self._allows(victims)):
                trials += 1
                yield victims

    def _cost(self, run: Run) -> Cost:
        cost = self._known.get(run.job.id)
        if cost is None:
            cards = cards_of(run.placement)
            cost = self._known[run.job.id] = Cost(lost_us(self._state, run) * max(cards, 1), 1, cards)
        return cost

    def _cost_of(self, victims: Iterable[Run]) -> Cost:
        return _sum(map(self._cost, victims))


def _sum(costs: Iterable[Cost]) -> Cost:
    lost, victims, cards = 0, 0, 0
    for cost in costs:
        lost, victims, cards = lost + cost.lost_gpu_us, victims + cost.victims, cards + cost.cards
    return Cost(lost, victims, cards)


def _first_cards(runs: Sequence[Run], cards: int) -> list[Run]:
    """The first of the runs that hold that many cards."""
    found: list[Run] = []
    for run in runs:
        if cards <= 0 and found:
            break
        found.append(run)
        cards -= cards_of(run.placement)
    return found


def _by_cost(pool: Sequence[Run], costs: Sequence[Cost]) -> Iterator[list[Run]]:
    """Sets of runs by the sum of their costs. The pool is sorted by cost. Each set is made from one that costs no more:
    by adding the run after its last one, or by replacing its last one with that."""
    heap: list[tuple[Cost, tuple[int, ...]]] = [(costs[0], (0,))] if pool else []
    for _ in range(MAX_SETS):
        if not heap:
            return
        cost, chosen = heapq.heappop(heap)
        yield [pool[i] for i in chosen]
        last = chosen[-1]
        if last + 1 < len(pool):
            added = _sum((cost, costs[last + 1]))
            before = costs[last]
            replaced = Cost(*(a - b for a, b in zip(added, before, strict=True)))
            heapq.heappush(heap, (added, (*chosen, last + 1)))
            heapq.heappush(heap, (replaced, (*chosen[:-1], last + 1)))
