"""Outcomes as columns, one entry per job: the basis of all figures."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gpusquad.model.job import Job
from gpusquad.model.units import US_PER_S, WHOLE_MILLI
from gpusquad.sim.outcome import Outcome, SimulationResult

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
PartyKind = Literal["tenant", "user"]

SHORT_RUN_US = 10 * US_PER_S
"""Shorter runs count as this long in slowdowns: a wait of a minute is no slowdown of 60 for a job of 1 s."""
NEVER = -1
_ENDS_AFTER_RUNNING = ("succeeded", "failed", "timed_out")


class JobTable:
    """The outcomes as columns, one entry per job in trace order."""

    def __init__(self, result: SimulationResult) -> None:
        outcomes = result.outcomes
        self.cluster_gpus = result.cluster.gpus
        self.submitted_us = _column(outcome.job.submitted_us for outcome in outcomes)
        self.ended_us = _column(NEVER if o.ended_us is None else o.ended_us for o in outcomes)
        self.promised_us = _column(NEVER if o.promised_us is None else o.promised_us for o in outcomes)
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

    def _add_attempts(self, result: SimulationResult) -> None:
        spans = [span for outcome in result.outcomes for span in outcome.spans]
        self.attempts = _column(len(outcome.spans) for outcome in result.outcomes)
        resized = sum(span.cut == "resized" for span in spans)
        self.restarts = int(np.maximum(self.attempts - 1, 0).sum()) - resized
        """Runs restarted after a preemption or a loss. A gang that continues with another number of tasks has not
        restarted.
        """
        self.started: Mask = self.attempts > 0
        self.finished: Mask = self._over & self.started & (self.ended_us != NEVER)

        start_us, self._span_ends_us = _column(s.started_us for s in spans), _column(s.ended_us for s in spans)
        took_us, cards = self._span_ends_us - start_us, _column(len(span.cards) for span in spans)
        n, after = len(self.attempts), np.cumsum(self.attempts)
        whose = np.repeat(np.arange(n), self.attempts)
        self.first_us = np.full(n, NEVER, dtype=np.int64)
        self.first_us[self.started] = start_us[(after - self.attempts)[self.started]]
        self.ran_us = np.bincount(whose, weights=took_us, minlength=n).astype(np.int64)
        self.gpu_us: Floats = np.bincount(whose, weights=took_us * cards, minlength=n).astype(np.float64)
        self.gpus: Floats = np.zeros(n)
        """GPUs held in the last attempt; for a job that never started, the GPUs it requested."""
        self.gpus[self.started] = cards[(after - 1)[self.started]]
        for i in np.flatnonzero(~self.started):
            self.gpus[i] = result.outcomes[i].job.gpus
        self._weigh_shares(result)

    def _weigh_shares(self, result: SimulationResult) -> None:
        """So far each card counted as held whole; correct this for jobs that hold shares."""
        memory = [card.memory_bytes for node in result.cluster.nodes for card in node.cards]
        for i, outcome in enumerate(result.outcomes):
            if not _is_whole(outcome.job):
                cards = outcome.spans[-1].cards if outcome.spans else ()
                self.gpus[i] = _gpus_held(outcome.job, memory[cards[0]] if cards else max(memory, default=0))
                self.gpu_us[i] = self.ran_us[i] * self.gpus[i]

    def _last_us(self, result: SimulationResult) -> int:
        """The last end; the last instant seen if jobs are unfinished."""
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
        """Jobs whose solo run time is known: not those that a limit cut short."""
        return self.finished & ~self.cut_short

    @property
    def _left_us(self) -> Ints:
        """When a job left the system; for unfinished jobs the last instant seen."""
        return np.where(self.ended_us == NEVER, np.maximum(self.last_us, self.submitted_us), self.ended_us)


def _column(values: Iterable[int]) -> Ints:
    return np.array(list(values), dtype=np.int64)


def _is_whole(job: Job) -> bool:
    """Whether no task requests a share. Called for every job, so the usual single role takes a shortcut."""
    roles = job.roles
    return roles[0].request.share is None and (len(roles) == 1 or all(role.request.share is None for role in roles))


def _gpus_held(job: Job, card_memory_bytes: int) -> float:
    """Whole GPUs and shares; a share counts as the larger of its SM and memory fractions."""
    held = 0.0
    for request, count in job.groups:
        if request.share is None:
            held += count * request.gpus
        else:
            of_memory = request.share.memory_on(card_memory_bytes) / card_memory_bytes if card_memory_bytes else 0.0
            held += count * max(request.share.sm_milli / WHOLE_MILLI, of_memory)
    return held


def _party_codes(outcomes: list[Outcome]) -> tuple[PartyKind, list[str], Ints]:
    """Owners of the jobs: tenants, or users if all jobs belong to one tenant and have users."""
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
    """For each job, the number of parties that had a counted job in the system, averaged over that job's life; at least
    1.
    """
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
    # A running maximum of the ends that restarts with each party. It runs over ranks, because ranks plus an offset per
    # party stay far below 2**63 where microseconds would not.
    by_end = np.argsort(left_us, kind="stable")
    rank = np.empty(n, dtype=np.int64)
    rank[by_end] = np.arange(n)
    until = left_us[by_end][np.maximum.accumulate(rank + party * n) - party * n]
    fresh = np.ones(n, dtype=bool)
    fresh[1:] = (party[1:] != party[:-1]) | (arrived_us[1:] > until[:-1])
    last = np.append(fresh[1:], True)
    return arrived_us[fresh], until[last]
