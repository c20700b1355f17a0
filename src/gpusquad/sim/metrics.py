"""Figures of a simulation.

Each figure states which jobs it covers. *Started* jobs have run at least once. *Finished* jobs ended after running
(succeeded, failed, timed out). Refused jobs count only in ``ends``. A figure without data (the mean wait of no jobs) is
``None``, never 0. Percentiles interpolate linearly between neighbours.

- **wait**: submission to first start. **JCT**: submission to end.
- **bounded slowdown** = max(1, (wait + run) / max(10 s, run)), finished jobs. ``run`` is the wall time on the cards
  without work done twice; ``wait`` is the rest of the JCT. Preempting a job therefore cannot improve its slowdown.
- **makespan**: first submission to last end (to the last instant seen, if jobs are unfinished).
- **utilisation**: GPU time held / (cards x makespan). A share counts as the larger of its SM and memory fractions.
- **fragmentation**: cards idle while jobs are pending, averaged over the makespan / cards.
- **Jain's index** over the mean slowdown of tenants (of users if there is one tenant): 1 is equal, 1/n is worst.
- **finish-time fairness** after Themis (NSDI '20): ``rho`` = shared finish time / finish time alone on 1/N of the
  cluster. Here rho = JCT / max(10 s, solo run x max(1, requested cards x N / cards of the cluster)), where N is the
  number of parties with jobs in the system, averaged over the job's life. A gang wider than its party's partition would
  run slower in that proportion. The party's own queue is not simulated, so a party that floods the system causes its
  own rho above 1. Covers jobs that succeeded or failed by themselves.
- **reservations** (``promises``): *broken* if the first start is later than the first reserved start (so far, if
  still pending). *Head delay*: how much later a head of the queue started than if no job behind it had started while
  it was the head (``core.explain.head_delay``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gpusquad.model.units import US_PER_S
from gpusquad.sim.job_table import NEVER, Floats, JobTable, Mask, PartyKind
from gpusquad.sim.outcome import Outcome, SimulationResult

US_PER_H = 3600 * US_PER_S


@dataclass(frozen=True, slots=True)
class Distribution:
    """Distribution of a quantity over jobs."""

    count: int
    mean: float | None
    median: float | None
    p90: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, slots=True)
class Fairness:
    """How evenly delays are spread."""

    by: PartyKind
    parties: int
    jain: float | None
    rho: Distribution
    """Finish-time fairness: below 1 is better than a partition of one's own."""
    worse_off_ratio: float | None
    """Fraction of the jobs with rho above 1."""


@dataclass(frozen=True, slots=True)
class ReservationStats:
    """Outcome of the reservations."""

    promised: int
    broken: int
    late_mean_s: float | None
    """Over the broken ones."""
    late_max_s: float | None
    moved: int
    """Number of times a reservation moved later."""
    head_delay_mean_s: float | None
    """Over all jobs that were head of the queue."""
    head_delay_max_s: float | None


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Jobs with a deadline. Met: succeeded by then. Open: unfinished, and the deadline is in the future."""

    jobs: int
    met: int
    open: int
    attainment_ratio: float | None
    """Met, of those that are not open."""


@dataclass(frozen=True, slots=True)
class Party:
    """One tenant (or user): means over its jobs."""

    name: str
    jobs: int
    finished: int
    gpu_hours: float
    wait_mean_s: float | None
    slowdown_mean: float | None
    jct_mean_s: float | None
    rho_mean: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of one simulation."""

    label: str
    policies: dict[str, str]
    nodes: int
    gpus: int
    jobs: int
    ends: dict[str, int]
    jct_s: Distribution
    wait_s: Distribution
    slowdown: Distribution
    makespan_s: float | None
    utilisation_ratio: float | None
    fragmentation_ratio: float | None
    fairness: Fairness
    promises: ReservationStats
    deadlines: Deadlines
    restarts: int
    """Attempts after the first, whatever ended the one before (a preemption, a lost card)."""
    gpu_hours: float
    lost_gpu_hours: float
    """Work done twice, times the cards that did it."""
    parties: tuple[Party, ...]
    """Most GPU hours first."""
    cycles: int
    wall_s: float
    skipped_lines: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: no NaN, no numpy."""
        return asdict(self)


def summarise(result: SimulationResult, table: JobTable | None = None) -> Summary:
    """All figures of one simulation. Pass the job table if it already exists."""
    table = table or JobTable(result)
    capacity_us = result.cluster.gpus * table.makespan_us
    gpu_us = float(table.gpu_us.sum())
    return Summary(
        label=result.label,
        policies=dict(result.policies),
        nodes=len(result.cluster.nodes),
        gpus=result.cluster.gpus,
        jobs=len(result.outcomes),
        ends=dict(Counter(outcome.end for outcome in result.outcomes)),
        jct_s=spread(table.jct_s[table.finished]),
        wait_s=spread(table.wait_s[table.started]),
        slowdown=spread(table.slowdown[table.finished]),
        makespan_s=table.makespan_us / US_PER_S if table.started.any() else None,
        utilisation_ratio=gpu_us / capacity_us if capacity_us else None,
        fragmentation_ratio=_stranded_us(result, table) / capacity_us if capacity_us else None,
        fairness=_fairness(table),
        promises=_promises(result, table),
        deadlines=_deadlines(result.outcomes, table.last_us),
        restarts=table.restarts,
        gpu_hours=gpu_us / US_PER_H,
        lost_gpu_hours=float((table.lost_us * table.gpus).sum()) / US_PER_H,
        parties=_parties(table),
        cycles=result.cycles,
        wall_s=result.wall_s,
        skipped_lines=result.skipped_lines,
    )


def spread(values: Floats) -> Distribution:
    """Mean and percentiles; all ``None`` if there are no values."""
    if not len(values):
        return Distribution(0, None, None, None, None, None)
    median, p90, p99 = np.percentile(values, (50, 90, 99))
    return Distribution(len(values), float(values.mean()), float(median), float(p90), float(p99), float(values.max()))


def _stranded_us(result: SimulationResult, table: JobTable) -> float:
    """Card time that was idle while jobs were pending."""
    return area_under(result.samples.at_us, result.samples.stranded, table.first_request_us, table.last_us)


def area_under(at_us: Sequence[int], values: Sequence[int], low_us: int, high_us: int) -> float:
    """The integral of a step function: each value holds until the next instant, the last until ``high_us``."""
    if not len(at_us):
        return 0.0
    edges = np.clip(np.append(np.asarray(at_us, dtype=np.int64), high_us), low_us, high_us)
    return float(np.dot(np.asarray(values, dtype=np.float64), np.diff(edges)))


def jain(values: Floats) -> float | None:
    """Jain's fairness index: 1 if all are equal, 1/n if one has everything."""
    if not len(values):
        return None
    return float(values.sum() ** 2 / (len(values) * (values**2).sum()))


def _fairness(table: JobTable) -> Fairness:
    means = _mean_by_party(table, table.slowdown, table.finished)
    rho = table.rho[table.rated]
    return Fairness(
        by=table.by,
        parties=len(table.party_names),
        jain=jain(means[~np.isnan(means)]),
        rho=spread(rho),
        worse_off_ratio=float((rho > 1.0).mean()) if len(rho) else None,
    )


def _promises(result: SimulationResult, table: JobTable) -> ReservationStats:
    promised = table.promised_us != NEVER
    start_us = np.where(table.started, table.first_us, table.last_us)
    late_s = (start_us - table.promised_us)[promised] / US_PER_S
    late_s = late_s[late_s > 0]
    delay_s = np.array(list(result.head_delay_us.values()), dtype=np.float64) / US_PER_S
    return ReservationStats(
        promised=int(promised.sum()),
        broken=len(late_s),
        late_mean_s=float(late_s.mean()) if len(late_s) else None,
        late_max_s=float(late_s.max()) if len(late_s) else None,
        moved=len(result.moved_reservations),
        head_delay_mean_s=float(delay_s.mean()) if len(delay_s) else None,
        head_delay_max_s=float(delay_s.max()) if len(delay_s) else None,
    )


def _deadlines(outcomes: list[Outcome], last_us: int) -> Deadlines:
    jobs = met = still_open = 0
    for outcome in outcomes:
        deadline_us = outcome.job.slo.deadline_us if outcome.job.slo is not None else None
        if deadline_us is None:
            continue
        jobs += 1
        met += outcome.end == "succeeded" and outcome.ended_us is not None and outcome.ended_us <= deadline_us
        still_open += outcome.end == "unfinished" and deadline_us > last_us
    decided = jobs - still_open
    return Deadlines(jobs, met, still_open, met / decided if decided else None)


def _mean_by_party(table: JobTable, values: Floats, where: Mask) -> Floats:
    """NaN for a party without such a job."""
    size = len(table.party_names)
    count = np.bincount(table.party[where], minlength=size)
    total = np.bincount(table.party[where], weights=values[where], minlength=size)
    return np.divide(total, count, out=np.full(size, np.nan), where=count > 0)


def _parties(table: JobTable) -> tuple[Party, ...]:
    size = len(table.party_names)
    jobs = np.bincount(table.party, minlength=size)
    finished = np.bincount(table.party[table.finished], minlength=size)
    gpu_hours = np.bincount(table.party, weights=table.gpu_us, minlength=size) / US_PER_H
    wait = _mean_by_party(table, table.wait_s, table.started)
    slowdown = _mean_by_party(table, table.slowdown, table.finished)
    jct = _mean_by_party(table, table.jct_s, table.finished)
    rho = _mean_by_party(table, table.rho, table.rated)
    rows = [
        Party(
            name=table.party_names[i],
            jobs=int(jobs[i]),
            finished=int(finished[i]),
            gpu_hours=float(gpu_hours[i]),
            wait_mean_s=_or_none(wait[i]),
            slowdown_mean=_or_none(slowdown[i]),
            jct_mean_s=_or_none(jct[i]),
            rho_mean=_or_none(rho[i]),
        )
        for i in range(size)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.gpu_hours, row.name)))


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
