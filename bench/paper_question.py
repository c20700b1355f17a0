"""The question of a 2020 study of containers that share GPUs: which jobs should share a card, and does it matter?

Eight jobs of equal solo length arrive together on four cards, two to a card. For every draw of eight from the measured
workloads, the bench computes the pairs that each place policy chooses through the core, and the extra total time
compared with the best of all pairings (the oracle). Pairs slow each other as measured on a real card. When one of two
ends, the other continues alone. A job that has to wait starts when the core starts it, so a place policy that runs bad
pairs one after another can be better than the best pairing.

Jobs are placed in the order in which a place policy ranks jobs that arrive together. "as they come" is the order of the
draw, "never waiting" shares at any cost.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np

from bench.claims import claim
from gpusquad.core.cycle import cycle
from gpusquad.core.state.policies import Policies, make_policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import Card, Cluster, Node
from gpusquad.model.interference import MeasurementSeries, Rate
from gpusquad.model.interference_data import from_data
from gpusquad.model.job import Job, Profile, Request, Role, Share
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction
from gpusquad.sim.colocation import PairTable, pairs_of
from gpusquad.sim.simulator import Scenario, exact, simulate
from gpusquad.sim.slowdown import by_pairs
from gpusquad.sim.traces import TraceJob

NAME = "paper-question"
SUMMARY = (
    "eight jobs on four cards, all draws of measured workloads: each place policy against the best of all pairings"
)

MEASURED = Path(__file__).resolve().parent / "measured"
FIVE = ("cnn", "vgg16", "vgg11", "alexnet", "googlenet")
"""The study's training jobs."""
JOBS, CARDS, PROCESSES = 8, 4, 2
T_US = 3600 * US_PER_S
CARD_BYTES = 141 * 10**9
NODE_BYTES = 1 << 42
CONTENDERS = {
    "binpack": "binpack",
    "balance": "balance",
    "standalone": "standalone",
    "interference": "interference",
    "interference, as they come": "interference",
    "interference, for work": "interference:goal=work",
    "interference, never waiting": "interference:most_loss=inf",
}

Draw = tuple[str, ...]
Times = tuple[float, float]
"""Of all jobs together, and of the last: in parts of a job's time alone."""


def run() -> list[dict]:
    files = sorted(MEASURED.glob("*.json"))
    if not files:
        print(f"{NAME}: nothing was measured yet (no file in bench/measured): left out", file=sys.stderr)
    claims = []
    for file in files:
        measured = from_data(json.loads(file.read_text(encoding="utf-8")), file.name)
        if measured.setting.memory_bytes is not None:
            continue  # with pairs that do not fit there are draws that no way of pairing can place
        names = tuple(solo.workload for solo in measured.solos)
        for chosen in dict.fromkeys((tuple(n for n in FIVE if n in names), names)):
            if len(chosen) > 1:
                claims += _claims(f"{measured.setting.sharing}, {len(chosen)} workloads", answer(measured, chosen))
    return claims


@dataclass(frozen=True)
class Answer:
    """For every draw, the times under each contender and of the oracle: rows of totals and of last ends."""

    draws: list[Draw]
    times: dict[str, np.ndarray]
    oracle: np.ndarray
    """The least total, and the least last end, each by its own best pairing."""

    def over(self, contender: str, what: int) -> np.ndarray:
        """How much longer than the oracle, in parts."""
        return self.times[contender][:, what] / self.oracle[:, what] - 1


def answer(measured: MeasurementSeries, workloads: Sequence[str], processes: int = PROCESSES) -> Answer:
    """Work through all draws."""
    draws = list(combinations_with_replacement(sorted(workloads), JOBS))
    parts = [draws[start::processes] for start in range(processes)]
    if processes == 1:
        found = [_times_of(measured, parts[0])]
    else:
        with ProcessPoolExecutor(processes) as pool:
            found = list(pool.map(_times_of, [measured] * processes, parts))
    times = {name: np.zeros((len(draws), 2)) for name in CONTENDERS}
    for start, part in enumerate(found):
        for name in CONTENDERS:
            times[name][start::processes] = part[name]
    oracle = Oracle(pairs_of(measured))
    return Answer(draws, times, np.array([oracle.best(draw) for draw in draws]))


def _times_of(measured: MeasurementSeries, draws: Sequence[Draw]) -> dict[str, list[Times]]:
    policy_times = PolicyTimes(measured)
    return {name: [policy_times.times(name, draw) for draw in draws] for name in CONTENDERS}


class Oracle:
    """The best of all ways to make pairs of a draw."""

    def __init__(self, table: PairTable) -> None:
        self._table = table
        self.total = cache(self._total)
        self.last = cache(self._last)

    def best(self, draw: Draw) -> Times:
        return self.total(draw), self.last(draw)

    def _total(self, draw: Draw) -> float:
        pairs = self._ways(draw)
        return min((pair_times(self._table, *pair)[0] + self.total(rest) for pair, rest in pairs), default=0.0)

    def _last(self, draw: Draw) -> float:
        pairs = self._ways(draw)
        return min((max(pair_times(self._table, *pair)[1], self.last(rest)) for pair, rest in pairs), default=0.0)

    def _ways(self, draw: Draw) -> list[tuple[tuple[str, str], Draw]]:
        """Each possible partner of the first job, with the remaining jobs."""
        first, rest = draw[:1], draw[1:]
        ways = {}
        for place, other in enumerate(rest):
            ways[other] = ((first[0], other), rest[:place] + rest[place + 1 :])
        return list(ways.values())


def pair_times(table: PairTable, one: str, other: str) -> Times:
    """Both start together. When the faster ends, the other has the card alone. A job that does not fit beside the other
    waits for its end."""
    slow, fast = sorted((table.rate(one, [other]), table.rate(other, [one])))
    if slow <= 0:
        return 3.0, 2.0
    first = 1 / fast
    last = first + 1 - first * slow
    return first + last, last


class PolicyTimes:
    """Puts draws before the places."""

    def __init__(self, measured: MeasurementSeries) -> None:
        self._table = pairs_of(measured)
        self._rate: Rate = by_pairs(self._table)
        self._gpu = measured.setting.gpu
        self._solos = {solo.workload: solo for solo in measured.solos}
        self._cluster = _cluster(measured)
        self._jobs: dict[tuple[str, int], TraceJob] = {}

    def times(self, contender: str, draw: Draw) -> Times:
        place = CONTENDERS[contender]
        jobs = [self._job(name, copy) for copy, name in enumerate(draw)]
        if not contender.endswith("as they come"):
            jobs = self._ranked(place, jobs)
        policies = _policies(place)
        cards = self._cards(policies, jobs)
        if sum(map(len, cards)) < len(jobs) or any(len(card) > 2 for card in cards):
            return self._simulated(policies, jobs)
        each = [pair_times(self._table, *card) if len(card) == 2 else (1.0, 1.0) for card in cards]
        return sum(total for total, _ in each), max(last for _, last in each)

    def _ranked(self, place: str, jobs: list[TraceJob]) -> list[TraceJob]:
        by_id = {trace.job.id: trace for trace in jobs}
        policy = _policies(place).place
        known = (self._rate, self._gpu) if place.startswith("interference") else ()
        return [by_id[job.id] for job in policy.rank([trace.job for trace in jobs], *known)]

    def _cards(self, policies: Policies, jobs: Sequence[TraceJob]) -> list[list[str]]:
        """Jobs on each card after one cycle of the core."""
        state = SchedulerState(self._cluster, policies, rate=self._rate)
        for trace in jobs:
            state.enqueue(trace.job, RunTimePrediction(T_US, T_US, "exact"))
        cycle(state, 0)
        return [[job.app for job in sharers] for sharers in state.space.sharers.values()]

    def _simulated(self, policies: Policies, jobs: Sequence[TraceJob]) -> Times:
        """If a job is still pending, the simulator continues from there."""
        result = simulate(Scenario(self._cluster, jobs, policies, exact, rate=self._rate))
        ends = [(outcome.ended_us or 0) / T_US for outcome in result.outcomes]
        return sum(ends), max(ends)

    def _job(self, name: str, copy: int) -> TraceJob:
        if (name, copy) not in self._jobs:
            solo = self._solos[name]
            profile = Profile(solo.utilisation_ratio, solo.memory_bytes, solo.bandwidth_ratio, "measured")
            request = Request(share=Share(solo.memory_bytes, 500))  # half the SMs each: two to a card
            job = Job(f"{name}-{copy}", (Role("main", 1, request),), app=name, profile=profile, estimate_us=T_US)
            self._jobs[name, copy] = TraceJob(job, T_US, workload=name)
        return self._jobs[name, copy]


@cache
def _policies(place: str) -> Policies:
    return make_policies("fifo", "easy", place)


def _cluster(measured: MeasurementSeries) -> Cluster:
    """One node; its cards have as much memory as could be used, and no two fit that were found not to."""
    size = measured.setting.memory_bytes or CARD_BYTES
    needs = {solo.workload: solo.memory_bytes for solo in measured.solos}
    for one in measured.co_runs:
        if not one.fits and all(name in needs for name in one.workloads):
            size = min(size, sum(needs[name] for name in one.workloads) - 1)
    size = max(size, *needs.values())
    cards = tuple(Card(f"gpu{i}", measured.setting.gpu, size) for i in range(CARDS))
    return Cluster((Node("worker", cards, 64_000, NODE_BYTES),))


def _claims(label: str, found: Answer) -> list[dict]:
    claims = []
    for what, name in ((0, "total time"), (1, "last end")):
        for contender in CONTENDERS:
            over = 100 * found.over(contender, what)
            head = f"{label}, {len(found.draws):,} draws, {name} over the best: {contender}"
            claims.append(claim(f"{head}, mean", round(float(over.mean()), 3), "%", "lower"))
            claims.append(claim(f"{head}, p95", round(float(np.percentile(over, 95)), 3), "%", "lower"))
            claims.append(claim(f"{head}, worst", round(float(over.max()), 3), "%", "lower"))
            best = 100 * float((over <= 1e-7).mean())
            claims.append(claim(f"{head}, as good as the best", round(best, 2), "% of draws", "higher"))
    return claims
