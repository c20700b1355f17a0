"""A simulation in numbers.

Every number says over which jobs it is taken. *Started* jobs have run at least once; *finished* ones came to an end
after running (succeeded, failed, timed out); refused jobs count nowhere but in ``ends``. A number that nothing in the
run defines (the mean wait of no jobs) is ``None``, never 0. Percentiles interpolate linearly between neighbours.

- **wait**: request to first start. **JCT**: request to end.
- **bounded slowdown** = max(1, (wait + run) / max(10 s, run)), finished jobs. ``run`` is the wall time on the cards
  without work done twice, and ``wait`` is all the rest of the JCT: so preempting a job cannot improve its slowdown.
- **makespan**: first request to last end (to the last instant seen, if jobs are unfinished).
- **utilisation**: GPU time held / (cards x makespan). A share counts as the larger of its SM and its memory part.
- **fragmentation**: cards idle while somebody waits, averaged over the makespan / cards.
- **Jain's index** over the mean slowdown of tenants (of users where there is one tenant): 1 is equal, 1/n is worst.
- **finish-time fairness** after Themis (NSDI '20), ``rho`` = shared finish time / finish time alone on 1/N of the
  cluster. Here rho = JCT / max(10 s, solo run x max(1, cards wanted x N / cards there are)), with N the number of
  parties that had jobs in the system, averaged over the job's life. A gang wider than its party's part would run
  slower in that proportion; the party's own queue in its part is not played through, so a party that floods the
  system with jobs has itself to thank for a rho above 1. Over jobs that succeeded or failed by themselves.
- **promises**: *broken* when the first start is later than the first start promised (so far, if still waiting).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpusquad.model.job import Job
from gpusquad.model.units import US_PER_S, WHOLE_MILLI
from gpusquad.sim.outcome import Outcome, Result

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
PartyKind = Literal["tenant", "user"]

SHORT_RUN_US = 10 * US_PER_S
"""Runs shorter than this count as this long in slowdowns: a wait of a minute is no slowdown of 60 for a job of 1 s."""
US_PER_H = 3600 * US_PER_S
_NEVER = -1
_ENDS_AFTER_RUNNING = ("succeeded", "failed", "timed_out")


@dataclass(frozen=True, slots=True)
class Spread:
    """How a quantity is distributed over jobs."""

    count: int
    mean: float | None
    median: float | None
    p90: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, slots=True)
class Fairness:
    """How evenly the pain is spread."""

    by: PartyKind
    parties: int
    jain: float | None
    rho: Spread
    """Finish-time fairness: below 1 is better than a part of one's own."""
    worse_off_ratio: float | None
    """Part of the jobs with rho above 1."""


@dataclass(frozen=True, slots=True)
class Promises:
    """What became of the reservations."""

    promised: int
    broken: int
    late_mean_s: float | None
    """Over the broken ones."""
    late_max_s: float | None
    moved: int
    """How often a reservation moved later."""
    head_delay_mean_s: float | None
    """Over all jobs that held a promise."""
    head_delay_max_s: float | None


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Jobs with a deadline. Met: succeeded by then. Open: unfinished, and the deadline is still ahead."""

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
    """One simulation in numbers."""

    label: str
    policies: dict[str, str]
    nodes: int
    gpus: int
    jobs: int
    ends: dict[str, int]
    jct_s: Spread
    wait_s: Spread
    slowdown: Spread
    makespan_s: float | None
    utilisation_ratio: float | None
    fragmentation_ratio: float | None
    fairness: Fairness
    promises: Promises
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
        """Plain data, ready for JSON: no NaN, no numpy."""
        return asdict(self)


def summarise(result: Result, table: JobTable | None = None) -> Summary:
    """All numbers of one simulation. Whoever has its table of jobs already passes it on."""
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
        restarts=int(np.maximum(table.attempts - 1, 0).sum()),
        gpu_hours=gpu_us / US_PER_H,
        lost_gpu_hours=float((table.lost_us * table.gpus).sum()) / US_PER_H,
        parties=_parties(table),
        cycles=result.cycles,
        wall_s=result.wall_s,
        skipped_lines=result.skipped_lines,
    )


def spread(values: Floats) -> Spread:
    """Mean and percentiles; all ``None`` where there are no values."""
    if not len(values):
        return Spread(0, None, None, None, None, None)
    median, p90, p99 = np.percentile(values, (50, 90, 99))
    return Spread(len(values), float(values.mean()), float(median), float(p90), float(p99), float(values.max()))


class JobTable:
    """The outcomes as columns, one entry a job in trace order."""

    def __init__(self, result: Result) -> None:
        outcomes = result.outcomes
        self.cluster_gpus = result.cluster.gpus
        self.submitted_us = _column(outcome.job.submitted_us for outcome in outcomes)
        self.ended_us = _column(_NEVER if o.ended_us is None else o.ended_us for o in outcomes)
        self.promised_us = _column(_NEVER if o.promised_us is None else o.promised_us for o in outcomes)
        self.lost_us = _column(outcome.lost_us for outcome in outcomes)
        self.solo_us = _column(outcome.run_us for outcome in outcomes)
        self.by: PartyKind
        self.by, self.party_names, self.party = _party_codes(outcomes)
        self._add_ends([outcome.end for outcome in outcomes])
        self._add_attempts(result)
        self.first_request_us = int(self.submitted_us[self.admitted].min()) if self.admitted.any() else 0
        self.last_us = self._last_us(result)

    def _add_ends(self, ends: list[str]) -> None:
        self.admitted: Mask = np.array([end != "refused" for end in ends], dtype=bool)
        self.cut_short: Mask = np.array([end == "timed_out" for end in ends], dtype=bool)
        self._over: Mask = np.array([end in _ENDS_AFTER_RUNNING for end in ends], dtype=bool)

    def _add_attempts(self, result: Result) -> None:
        spans = [span for outcome in result.outcomes for span in outcome.spans]
        self.attempts = _column(len(outcome.spans) for outcome in result.outcomes)
        self.started: Mask = self.attempts > 0
        self.finished: Mask = self._over & self.started & (self.ended_us != _NEVER)

        start_us, self._span_ends_us = _column(s.started_us for s in spans), _column(s.ended_us for s in spans)
        took_us, cards = self._span_ends_us - start_us, _column(len(span.cards) for span in spans)
        n, after = len(self.attempts), np.cumsum(self.attempts)
        whose = np.repeat(np.arange(n), self.attempts)
        self.first_us = np.full(n, _NEVER, dtype=np.int64)
        self.first_us[self.started] = start_us[(after - self.attempts)[self.started]]
        self.ran_us = np.bincount(whose, weights=took_us, minlength=n).astype(np.int64)
        self.gpu_us: Floats = np.bincount(whose, weights=took_us * cards, minlength=n).astype(np.float64)
        self.gpus: Floats = np.zeros(n)
        """GPUs held in the last attempt; those asked for by a job that never started."""
        self.gpus[self.started] = cards[(after - 1)[self.started]]
        for i in np.flatnonzero(~self.started):
            self.gpus[i] = result.outcomes[i].job.gpus
        self._weigh_shares(result)

    def _weigh_shares(self, result: Result) -> None:
        """So far each card counted as held whole; put right who holds parts of cards."""
        memory = [card.memory_bytes for node in result.cluster.nodes for card in node.cards]
        for i, outcome in enumerate(result.outcomes):
            if not _is_whole(outcome.job):
                cards = outcome.spans[-1].cards if outcome.spans else ()
                self.gpus[i] = _gpus_held(outcome.job, memory[cards[0]] if cards else max(memory, default=0))
                self.gpu_us[i] = self.ran_us[i] * self.gpus[i]

    def _last_us(self, result: Result) -> int:
        """The last end; the last instant seen where jobs are left unfinished."""
        last = int(self._span_ends_us.max()) if len(self._span_ends_us) else self.first_request_us
        if (self.admitted & ~self.finished).any() and result.samples.at_us:
            last = max(last, result.samples.at_us[-1])
        return max(last, self.first_request_us)

    @property
    def makespan_us(self) -> int:
        return self.last_us - self.first_request_us

    @cached_property
    def wait_s(self) -> Floats:
        """Meaningful for started jobs."""
        return (self.first_us - self.submitted_us) / US_PER_S

    @cached_property
    def jct_s(self) -> Floats:
        """Meaningful for finished jobs."""
        return (self.ended_us - self.submitted_us) / US_PER_S

    @cached_property
    def slowdown(self) -> Floats:
        """Meaningful for finished jobs."""
        useful_us = np.maximum(SHORT_RUN_US, self.ran_us - self.lost_us)
        return np.maximum(1.0, (self.ended_us - self.submitted_us) / useful_us)

    @cached_property
    def rho(self) -> Floats:
        """Finish-time fairness; meaningful for ``rated`` jobs."""
        crowd = mean_active(self.submitted_us, self._left_us, self.party, self.admitted)
        wanted = self.gpus * crowd / max(1, self.cluster_gpus)
        alone_us = np.maximum(SHORT_RUN_US, self.solo_us * np.maximum(1.0, wanted))
        return (self.ended_us - self.submitted_us) / alone_us

    @property
    def rated(self) -> Mask:
        """Jobs whose solo run time says how long they would have taken: not those that a limit cut short."""
        return self.finished & ~self.cut_short

    @property
    def _left_us(self) -> Ints:
        """When a job left the system; the last instant seen for those that are still there."""
        return np.where(self.ended_us == _NEVER, np.maximum(self.last_us, self.submitted_us), self.ended_us)


def _column(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)


def _is_whole(job: Job) -> bool:
    """No task asks for a part of a card. Asked of every job, so the usual single role takes the short way."""
    roles = job.roles
    return roles[0].request.share is None and (len(roles) == 1 or all(role.request.share is None for role in roles))


def _gpus_held(job: Job, card_memory_bytes: int) -> float:
    """Whole GPUs and parts: of each part the larger of SMs and memory."""
    held = 0.0
    for request, count in job.groups:
        if request.share is None:
            held += count * request.gpus
        else:
            of_memory = request.share.memory_bytes / card_memory_bytes if card_memory_bytes else 0.0
            held += count * max(request.share.sm_milli / WHOLE_MILLI, of_memory)
    return held


def _party_codes(outcomes: list[Outcome]) -> tuple[PartyKind, list[str], Ints]:
    """Who the jobs belong to: tenants, or users where all jobs are of one tenant and have users."""
    names, codes = _codes(outcome.job.tenant for outcome in outcomes)
    if len(names) <= 1:
        users, user_codes = _codes(outcome.job.user for outcome in outcomes)
        if len(users) > 1:
            return "user", users, user_codes
    return "tenant", names, codes


def _codes(values: Iterable[Hashable]) -> tuple[list[Any], Ints]:
    seen: dict[Hashable, int] = {}
    codes = _column(seen.setdefault(value, len(seen)) for value in values)
    return list(seen), codes


def mean_active(arrived_us: Ints, left_us: Ints, party: Ints, counted: Mask) -> Floats:
    """For each job, how many parties had a counted job in the system, averaged over that job's life; at least 1."""
    if not counted.any():
        return np.ones(len(arrived_us))
    starts, ends = _busy_periods(arrived_us[counted], left_us[counted], party[counted])
    at = np.concatenate((starts, ends))
    steps = np.concatenate((np.ones(len(starts)), -np.ones(len(ends))))
    order = np.argsort(at, kind="stable")
    at, active = at[order], np.cumsum(steps[order])
    area = np.concatenate(([0.0], np.cumsum(active[:-1] * np.diff(at))))
    life = np.maximum(1, left_us - arrived_us)
    return np.maximum(1.0, (np.interp(left_us, at, area) - np.interp(arrived_us, at, area)) / life)


def _busy_periods(arrived_us: Ints, left_us: Ints, party: Ints) -> tuple[Ints, Ints]:
    """The periods in which each party has at least one job: starts and ends, all parties together."""
    n = len(arrived_us)
    order = np.lexsort((arrived_us, party))
    party, arrived_us, left_us = party[order], arrived_us[order], left_us[order]
    # A running maximum of the ends that starts anew with each party: over ranks, because ranks plus an offset a party
    # stay far below 2**63 where microseconds would not.
    by_end = np.argsort(left_us, kind="stable")
    rank = np.empty(n, dtype=np.int64)
    rank[by_end] = np.arange(n)
    until = left_us[by_end][np.maximum.accumulate(rank + party * n) - party * n]
    fresh = np.ones(n, dtype=bool)
    fresh[1:] = (party[1:] != party[:-1]) | (arrived_us[1:] > until[:-1])
    last = np.append(fresh[1:], True)
    return arrived_us[fresh], until[last]


def _stranded_us(result: Result, table: JobTable) -> float:
    """Card time idle while somebody waited."""
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


def _promises(result: Result, table: JobTable) -> Promises:
    promised = table.promised_us != _NEVER
    start_us = np.where(table.started, table.first_us, table.last_us)
    late_s = (start_us - table.promised_us)[promised] / US_PER_S
    late_s = late_s[late_s > 0]
    delay_s = np.array(list(result.head_delay_us.values()), dtype=np.float64) / US_PER_S
    return Promises(
        promised=int(promised.sum()),
        broken=len(late_s),
        late_mean_s=float(late_s.mean()) if len(late_s) else None,
        late_max_s=float(late_s.max()) if len(late_s) else None,
        moved=len(result.moved_promises),
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
