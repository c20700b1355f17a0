"""Best pairs of jobs that arrive together, to share cards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import inf

from gpusquad.model.interference import Rate
from gpusquad.model.job import Job
from gpusquad.policies.place._neighbours import Goal, Weight, joining, later_by_joining
from gpusquad.policies.place._tasks import gpu_memory

_EXACT_JOBS = 12
"""Maximum number of jobs for an exact search. Above it, the best remaining pair is chosen greedily."""
_WORST = 1e6
"""Replaces infinity in sums, so that fewer pairs that do not fit are better than more."""

Costs = list[list[float]]
Choose = Callable[[int, Sequence[int]], int]
"""Which of these companions a job would choose."""


def in_order_of_pairs(jobs: Sequence[Job], rate: Rate, gpu: str, weight: Weight, goal: Goal = "work") -> list[Job]:
    """Order of placement: one job of each pair, then the others, each at the point where it would choose its partner.

    The pairing is not stored while the jobs are placed, and ties are broken by the card. So the choices of the place
    policy are reproduced here, for equal cards that take two jobs. With equal weights the result is as good as the best
    pairing. With other weights the jobs may choose partners that differ from the optimal sum."""
    losses = _losses(jobs, rate, gpu, weight, goal)
    pairs, alone = _best_pairs((_time_together if goal == "work" else _ends_together)(jobs, losses, weight))
    memory = [gpu_memory(job) for job in jobs]

    def choose(who: int, open_to: Sequence[int]) -> int:
        return min(open_to, key=lambda other: (losses[who][other], -memory[other]))

    first = [a for a, _ in pairs] + alone
    return [jobs[index] for index in (*first, *_as_they_choose(first, dict(pairs), choose))]


def _as_they_choose(first: Sequence[int], partner_of: Mapping[int, int], choose: Choose) -> list[int]:
    """Order in which each job gets its choice. Starting at any job, follow whose partner each would take. The walk ends
    at a job without a partner to lose, or in a cycle. All jobs of the cycle (or of the walk) can have their choice at
    once. They lose no more than in the given pairing, so an optimal pairing stays optimal."""
    partner_of, open_to, then = dict(partner_of), list(first), []
    while partner_of:
        choices = {who: choose(who, open_to) for who in partner_of.values()}
        walk = [next(iter(partner_of.values()))]
        while (after := partner_of.get(choices[walk[-1]])) is not None and after not in walk:
            walk.append(after)
        walk = walk[walk.index(after) :] if after is not None else walk
        then += walk
        partner_of = {a: who for a, who in partner_of.items() if who not in walk}
        open_to = [a for a in open_to if a not in {choices[who] for who in walk}]
    return then


def _losses(jobs: Sequence[Job], rate: Rate, gpu: str, weight: Weight, goal: Goal) -> Costs:
    """Loss of each job when it joins each other one, assuming equal run times. Cached per kind of job."""
    known: dict[tuple, float] = {}

    def loss(one: Job, other: Job) -> float:
        key = (_kind(one), _kind(other))
        if key not in known:
            if goal == "work":
                known[key] = joining(one, (other,), gpu, rate, weight).loss
            else:
                known[key] = later_by_joining(one, 1.0, (other,), (1.0,), gpu, rate, weight).loss
        return known[key]

    return [[loss(one, other) if one is not other else inf for other in jobs] for one in jobs]


def _ends_together(jobs: Sequence[Job], losses: Costs, weight: Weight) -> Costs:
    """Delay of each pair if they share a card or run one after the other, whichever is less."""

    def cost(one: int, other: int) -> float:
        return min(losses[one][other] * weight(jobs[one]), weight(jobs[one]), weight(jobs[other]))

    numbers = range(len(jobs))
    return [[cost(one, other) for other in numbers] for one in numbers]


def _time_together(jobs: Sequence[Job], losses: Costs, weight: Weight) -> Costs:
    """Relative time that each pair needs for its work when run times are unknown: inversely proportional to the sum of
    the rates."""

    def cost(one: int, other: int) -> float:
        if losses[one][other] == inf:
            return _WORST
        both = weight(jobs[one]) + weight(jobs[other])
        speed = both - losses[one][other] * weight(jobs[one])
        return both * both / speed if speed > 0 else _WORST

    numbers = range(len(jobs))
    return [[cost(min(one, other), max(one, other)) for other in numbers] for one in numbers]


def _kind(job: Job) -> tuple:
    return (job.app, job.profile, job.gang, job.priority, job.slo)


def _best_pairs(costs: Costs) -> tuple[list[tuple[int, int]], list[int]]:
    """The pairs, and the jobs left over."""
    count = len(costs)
    if count > _EXACT_JOBS:
        return _greedy_pairs(costs)

    @cache
    def best(left: int) -> tuple[float, tuple[tuple[int, int], ...]]:
        if left.bit_count() < 2:
            return 0.0, ()
        found: tuple[float, tuple[tuple[int, int], ...]] = (inf, ())
        first = (left & -left).bit_length() - 1
        rest = left & ~(1 << first)
        if left.bit_count() % 2:
            found = best(rest)  # with an odd number one job stays alone; it may be this one
        for other in range(first + 1, count):
            if rest >> other & 1:
                cost, pairs = best(rest & ~(1 << other))
                if cost + costs[first][other] < found[0]:
                    found = cost + costs[first][other], ((first, other), *pairs)
        return found

    pairs = list(best((1 << count) - 1)[1])
    return pairs, _without(count, pairs)


def _greedy_pairs(costs: Costs) -> tuple[list[tuple[int, int]], list[int]]:
    count = len(costs)
    ranked = sorted((costs[a][b], a, b) for a in range(count) for b in range(a + 1, count))
    taken: set[int] = set()
    pairs = []
    for _, a, b in ranked:
        if a not in taken and b not in taken:
            taken |= {a, b}
            pairs.append((a, b))
    return pairs, _without(count, pairs)


def _without(count: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    paired = {index for pair in pairs for index in pair}
    return [index for index in range(count) if index not in paired]
