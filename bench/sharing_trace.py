"""Interference-aware placement in whole traces: the same jobs on whole cards, and shared under four place policies.

Gavel's training jobs, slowed as measured in pairs on a V100. Every one-GPU job requests half the SMs of a card, so that
at most two share one, and card memory. Sizes are fitted to the measurements so that no two jobs that did not fit
together can share a card (a few that do fit are kept apart too). Gangs request whole cards. The scheduler uses the
table as it is, or with errors: each pair's ratio changed by a tenth, up or down.

At a load of 0.95 the mean JCT shows little about place policies: the one-GPU jobs are few card hours and wait for days
behind wide gangs, and which of them are backfilled is random (a slightly wrong table or another tie shifts it by
hours). There the policies are shown without a bar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Literal

from bench.claims import claim
from bench.data import data_path
from gpusquad.core.state.policies import make_policies
from gpusquad.model.cluster import Card, Cluster, grid
from gpusquad.model.interference import Rate
from gpusquad.model.job import Request, Role, Share
from gpusquad.model.units import US_PER_S
from gpusquad.sim.colocation import PairTable, load_pairs
from gpusquad.sim.metrics import Summary, summarise
from gpusquad.sim.simulator import Scenario, exact, simulate
from gpusquad.sim.slowdown import by_pairs
from gpusquad.sim.traces import TraceJob, read

NAME = "sharing-trace"
SUMMARY = "Gavel's training jobs: whole cards, and shared by binpack, balance, standalone and interference"

GB = 10**9
CARD_GB = 16
ERROR = 0.1
SEED = 20
BEGINNINGS = 20
CASES = (("minimize_makespan", "2x8"), ("b436b2", "22x8"), ("b436b2", "17x8"))
"""A hundred jobs that come at once, on 16 GPUs; and a Philly virtual cluster of 2,000 at a load of 0.73 and of 0.95."""
CROWDED = "17x8"
WHOLE = "whole cards"
Better = Literal["lower", "higher"]
RIVALS = ("binpack", "balance", "standalone")
ENDS, WORK = "interference", "interference:goal=work"


def run() -> list[dict]:
    pairs = load_pairs(data_path("gavel-throughputs/simulation_throughputs.json.gz"))
    claims = []
    for name, cluster in CASES:
        claims += _claims(name, cluster, pairs)
    return claims


def whole_jobs(name: str) -> list[TraceJob]:
    """As the trace has them: all ask for whole cards."""
    return read(data_path("gavel-throughputs/gavel_traces.csv.gz"), f"gavel:trace={name}").jobs


def sharing(jobs: list[TraceJob], pairs: PairTable) -> list[TraceJob]:
    """One-GPU jobs request half a card and the memory they need."""
    sizes_gb = memory_sizes_gb(pairs)
    return [replace(t, job=replace(t.job, roles=_half(sizes_gb[t.workload]))) if t.job.gpus == 1 else t for t in jobs]


def memory_sizes_gb(pairs: PairTable) -> dict[str, int]:
    """Return a size for each workload. Two sizes exceed a card if the workloads did not fit together, and rarely
    otherwise.

    From several start values, one workload after another gets the size that agrees best with all others, until nothing
    changes. The best result is used.
    """
    names = sorted({own for own, _ in pairs.ratios})
    fit = {name: {other: fit_together(pairs, name, other) for other in names} for name in names}
    chance = Random(SEED)
    found = [_settled({name: chance.randint(1, CARD_GB) for name in names}, fit) for _ in range(BEGINNINGS)]
    return min(found, key=lambda sizes: sum(_disagreement(sizes, fit, name, sizes[name]) for name in names))


def _settled(sizes: dict[str, int], fit: dict[str, dict[str, bool]]) -> dict[str, int]:
    for _ in range(len(sizes)):
        before = dict(sizes)
        for name in sizes:
            sizes[name] = min(range(1, CARD_GB + 1), key=lambda size, name=name: _disagreement(sizes, fit, name, size))
        if sizes == before:
            break
    return sizes


def _disagreement(sizes: dict[str, int], fit: dict[str, dict[str, bool]], name: str, size: int) -> float:
    """Who fits by size and not by measurement weighs more than all of the reverse; of equals the smallest is best."""
    total = size / 1000
    for other, together in fit[name].items():
        by_size = (size if other == name else sizes[other]) + size <= CARD_GB
        if by_size != together:
            total += len(fit) if by_size else 1
    return total


def fit_together(pairs: PairTable, one: str, other: str) -> bool:
    return bool(pairs.slowdown(one, other)) and bool(pairs.slowdown(other, one))


def noisy(pairs: PairTable, error: float = ERROR, seed: int = SEED) -> PairTable:
    """Change every ratio by this fraction, up or down at random. Pairs that do not fit are kept."""
    chance = Random(seed)
    ratios = {pair: min(1.0, ratio * (1 + chance.choice((-error, error)))) for pair, ratio in pairs.ratios.items()}
    return replace(pairs, ratios=ratios)


def outcome(cluster: Cluster, jobs: list[TraceJob], place: str, truth: Rate, belief: Rate | None = None) -> Summary:
    policies = make_policies("fifo", "easy", place)
    return summarise(simulate(Scenario(cluster, jobs, policies, exact, rate=truth, belief=belief)))


def outcomes(whole: list[TraceJob], cluster: Cluster, pairs: PairTable) -> Iterator[tuple[str, Summary]]:
    """Results of the jobs under each placement."""
    shared, truth = sharing(whole, pairs), by_pairs(pairs)
    yield WHOLE, outcome(cluster, whole, "binpack", truth)
    for place in (*RIVALS, ENDS, WORK):
        yield place, outcome(cluster, shared, place, truth)
    yield f"interference, believing {ERROR:.0%} wrong", outcome(cluster, shared, "interference", truth,
                                                               by_pairs(noisy(pairs)))  # fmt: skip


def work_done_ratio(whole: list[TraceJob], cluster: Cluster, summary: Summary) -> float:
    """Solo time of the jobs on their cards, over all card time until the last job ended."""
    work_us = sum(trace.run_us * trace.job.gpus for trace in whole)
    return work_us / US_PER_S / (cluster.gpus * (summary.makespan_s or 1))


def _claims(name: str, shape: str, pairs: PairTable) -> list[dict]:
    jobs, cluster = whole_jobs(name), with_memory(grid(shape))
    found = dict(outcomes(jobs, cluster, pairs))
    head = f"Gavel {name}, {cluster.gpus} GPUs"

    def told(what: str, unit: str, better: Better, ours: str, get: Callable[[Summary], float]) -> list[dict]:
        values = {place: round(get(summary), 3) for place, summary in found.items()}
        best = (min if better == "lower" else max)(values[place] for place in RIVALS)
        bars = {ours: best} if shape != CROWDED else {}
        return [
            claim(f"{head}, {what}: {place}", value, unit, better, bar=bars.get(place), baseline=values[WHOLE])
            for place, value in values.items()
        ]

    return [
        *told("mean JCT", "h", "lower", ENDS, lambda s: (s.jct_s.mean or 0) / 3600),
        *told("last end", "h", "lower", WORK, lambda s: (s.makespan_s or 0) / 3600),
        *told("work done of card time", "%", "higher", WORK, lambda s: 100 * work_done_ratio(jobs, cluster, s)),
    ]


def _half(memory_gb: int) -> tuple[Role, ...]:
    return (Role("worker", 1, Request(share=Share(memory_gb * GB, 500))),)


def with_memory(cluster: Cluster) -> Cluster:
    """Its cards with the memory that sizes are fitted to."""
    return Cluster(tuple(replace(node, cards=tuple(_sized(card) for card in node.cards)) for node in cluster.nodes))


def _sized(card: Card) -> Card:
    return replace(card, memory_bytes=CARD_GB * GB)
