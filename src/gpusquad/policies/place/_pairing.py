"""Who should share a card with whom, among jobs that arrive together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import inf

from gpusquad.model.interference import Rate
from gpusquad.model.job import Job
from gpusquad.policies.place._neighbours import Goal, Weight, joining, later_by_joining
from gpusquad.policies.place._tasks import gpu_memory

_TRIED_ALL = 12
"""Up to so many jobs all ways of pairing are tried; for more, the best pair that is left is taken again and again."""
_WORST = 1e6
"""Stands for infinite in sums, so that fewer pairs that do not fit are better than more."""

Costs = list[list[float]]
Choose = Callable[[int, Sequence[int]], int]
"""The one of these companions that somebody would join."""


def in_order_of_pairs(jobs: Sequence[Job], rate: Rate, gpu: str, weight: Weight, goal: Goal = "work") -> list[Job]:
    """One of each pair, then the others, each at the moment when the company it would choose is its partner.

    Nobody remembers the pairing while they are placed, and where two companies are as good the card decides. So what
    each would choose is worked out here as the place does, for cards that are alike and take two. Where all count the
    same, they end up in pairs as good as the best; where some count more, they may choose others than the sum."""
    losses = _losses(jobs, rate, gpu, weight, goal)
    pairs, alone = _best_pairs((_time_together if goal == "work" else _ends_together)(jobs, losses, weight))
    memory = [gpu_memory(job) for job in jobs]

    def choose(who: int, open_to: Sequence[int]) -> int:
        return min(open_to, key=lambda other: (losses[who][other], -memory[other]))

    first = [a for a, _ in pairs] + alone
    return [jobs[index] for index in (*first, *_as_they_choose(first, dict(pairs), choose))]


def _as_they_choose(first: Sequence[int], partner_of: Mapping[int, int], choose: Choose) -> list[int]:
    """Follow, from anybody, whose partner each would take: the walk ends at somebody with no partner left to lose, or
    comes round. Those on the circle (or on the way to that end) can all have their choice at once. They lose no more
    by it than in the pairing, so where that was the best, this is as good."""
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
    """What each would lose and cost by joining each other, if all take as long. Worked out once for jobs of a kind."""
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
    """How much later each pair ends for being one, or for taking turns where that is less."""

    def cost(one: int, other: int) -> float:
        return min(losses[one][other] * weight(jobs[one]), weight(jobs[one]), weight(jobs[other]))

    numbers = range(len(jobs))
    return [[cost(one, other) for other in numbers] for one in numbers]


def _time_together(jobs: Sequence[Job], losses: Costs, weight: Weight) -> Costs:
    """How long each pair is together until one of them ends, if nobody knows how long they run: what it does together
    goes by the sum of the speeds."""

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
    """The pairs, and who is left over."""
    count = len(costs)
    if count > _TRIED_ALL:
        return _greedy_pairs(costs)

    @cache
    def best(left: int) -> tuple[float, tuple[tuple[int, int], ...]]:
        if left.bit_count() < 2:
            return 0.0, ()
        found: tuple[float, tuple[tuple[int, int], ...]] = (inf, ())
        first = (left & -left).bit_length() - 1
        rest = left & ~(1 << first)
        if left.bit_count() % 2:
            found = best(rest)  # somebody stays alone; it may be this one
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
