"""Running gangs, their predicted ends, and the capacity these free, as arrays for fast queries about the future."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.capacity.space import Space
from gpusquad.core.state.lanes import Lane
from gpusquad.model.job import Job, Request
from gpusquad.model.node_sets import NodeSets
from gpusquad.model.placement import Ints, Placement
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction

NEVER_US = 1 << 60
"""An unknown end."""
FOREVER_US = NEVER_US + 1
"""After every end, including unknown ones."""
_DEAD_US = NEVER_US + 2
HORIZON_US = 366 * 86_400 * US_PER_S
"""Instants further away are not told to users: nobody plans by them, and they come from placeholders."""
_ROWS_PER_RUN = 16
"""Mean number of rows of a run above which it is faster to walk the runs than to partition the rows."""


def is_foreseeable(at_us: int, now_us: int) -> bool:
    """Whether an instant is worth telling."""
    return at_us - now_us <= HORIZON_US and at_us < NEVER_US


def after_us(now_us: int, duration_us: int) -> int:
    """End of a period; FOREVER_US if its length is unknown."""
    return min(now_us + duration_us, FOREVER_US)


def tasks_in(placement: Placement) -> int:
    """Number of tasks of a placement."""
    return sum(len(part.nodes) for part in placement.parts)


def predicted_end_us(job: Job, prediction: RunTimePrediction, placement: Placement, started_us: int) -> int:
    """End of a run by the median of its prediction. An elastic gang on fewer tasks needs longer."""
    mid_us = prediction.mid_us
    if job.is_elastic:
        mid_us = -(-mid_us * job.tasks // tasks_in(placement))  # rounded up: a reservation may rely on it
    return min(started_us + mid_us, NEVER_US)


@dataclass(slots=True, eq=False)
class Run:
    """A gang that holds cards."""

    job: Job
    placement: Placement
    prediction: RunTimePrediction
    started_us: int
    end_us: int
    """Predicted end (median). It moves if the run overruns or a neighbour slows it down."""
    sequence: int
    lane: Lane
    attempt: int = 0
    kept_us: int = 0
    served_gpu_us: int = 0
    """GPU time of earlier attempts."""
    preemptions: int = 0
    leaving: bool = False
    """It is being stopped. Its cards are free when the engine reports the end."""
    shrinks_to: Placement | None = None
    """Its placement when the tasks being stopped have ended."""
    slack_us: int = 0
    """Part of ``end_us`` that was added because the head of the queue has waited too long."""
    admitted_until_us: int = FOREVER_US
    """End of the time for which it was admitted (``PendingJob.admitted_us``). A backfilled job that still runs then has
    outlived its word."""
    rows: tuple[int, int] = field(default=(0, 0))
    has_shares: bool = False

    @property
    def high_end_us(self) -> int:
        prediction = self.prediction
        high_us = prediction.high_us if prediction.promise_us is None else prediction.promise_us
        return min(self.end_us - self.slack_us + max(high_us - prediction.mid_us, self.slack_us), NEVER_US)


class Releases:
    """Future releases of resources, one row per card or task: node, card, time. Dead rows never release."""

    def __init__(self) -> None:
        self.count = 0
        self.dead = 0
        self.end_us = np.zeros(64, dtype=np.int64)
        self.card = np.zeros(64, dtype=np.int64)
        """-1: the row releases no card, only what a task used of its node."""
        self.node = np.zeros(64, dtype=np.int64)
        self.kind = np.zeros(64, dtype=np.int64)
        """What the row releases of its node: index into the table of amounts."""

    def append(self, end_us: int, card: Ints | int, node: Ints, kind: int) -> None:
        size = len(node)
        while self.count + size > len(self.end_us):
            self._grow()
        block = slice(self.count, self.count + size)
        self.end_us[block] = end_us
        self.card[block] = card
        self.node[block] = node
        self.kind[block] = kind
        self.count += size

    def keep(self, alive: Ints) -> None:
        """Remove dead rows."""
        self.count = len(alive)
        self.dead = 0
        for name in ("end_us", "card", "node", "kind"):
            array = getattr(self, name)
            array[: self.count] = array[alive]

    def _grow(self) -> None:
        for name in ("end_us", "card", "node", "kind"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate((array, np.zeros_like(array))))


class Runs:
    """All running gangs."""

    def __init__(self) -> None:
        self.by_id: dict[str, Run] = {}
        self.ends: list[tuple[int, int, str]] = []
        """(predicted end, sequence, job), soonest first."""
        self.limits: list[tuple[int, int, str]] = []
        """(end of its time limit, sequence, job), soonest first."""
        self.admissions: list[tuple[int, int, str]] = []
        """(end of the time for which it was admitted, sequence, job), soonest first. Without unknown ends."""
        self.sharing: dict[str, Run] = {}
        self.elastic: dict[str, Run] = {}
        self.checkpointed: dict[str, Run] = {}
        """Runs that write checkpoints."""
        self._levels: Counter[int] = Counter()
        """Number of runs by priority."""
        self.any_node_rows = False
        self._rows = Releases()
        self._kinds: dict[Request, int] = {}
        self._amounts: tuple[ClusterArrays, Ints] | None = None

    def __len__(self) -> int:
        return len(self.by_id)

    def __getitem__(self, job_id: str) -> Run:
        return self.by_id[job_id]

    def __contains__(self, job_id: str) -> bool:
        return job_id in self.by_id

    def counted_in(self, sets: NodeSets) -> NodeSets:
        """The sets with the starts that they do not count yet."""
        for job_id in sorted(sets.awaited & self.by_id.keys()):
            sets = sets.with_start(job_id, self.by_id[job_id].placement)
        return sets

    def add(self, run: Run) -> None:
        self.by_id[run.job.id] = run
        self._levels[run.job.priority_level] += 1
        insort(self.ends, (run.end_us, run.sequence, run.job.id))
        if run.job.limit_us is not None:
            insort(self.limits, (run.started_us + run.job.limit_us, run.sequence, run.job.id))
        if run.admitted_until_us < NEVER_US:
            insort(self.admissions, (run.admitted_until_us, run.sequence, run.job.id))
        first = self._rows.count
        for part in run.placement.parts:
            self._add_rows(run, part.nodes, part.cards, part.request_index)
        run.rows = (first, self._rows.count)
        if run.has_shares:
            self.sharing[run.job.id] = run
        if run.job.is_elastic:
            self.elastic[run.job.id] = run
        if run.job.checkpoint.every_us is not None:
            self.checkpointed[run.job.id] = run

    def remove(self, job_id: str) -> Run:
        run = self.by_id.pop(job_id)
        self._levels[run.job.priority_level] -= 1
        if not self._levels[run.job.priority_level]:
            del self._levels[run.job.priority_level]
        del self.ends[bisect_left(self.ends, (run.end_us, run.sequence, job_id))]
        if run.job.limit_us is not None:
            self.limits.remove((run.started_us + run.job.limit_us, run.sequence, job_id))
        if run.admitted_until_us < NEVER_US:
            del self.admissions[bisect_left(self.admissions, (run.admitted_until_us, run.sequence, job_id))]
        self.sharing.pop(job_id, None)
        self.elastic.pop(job_id, None)
        self.checkpointed.pop(job_id, None)
        first, last = run.rows
        self._rows.end_us[first:last] = _DEAD_US
        self._rows.dead += last - first
        if self._rows.dead > 256 and self._rows.dead * 2 > self._rows.count:
            self._compact()
        return run

    def move_end(self, run: Run, end_us: int) -> None:
        """Change the predicted end of a run."""
        del self.ends[bisect_left(self.ends, (run.end_us, run.sequence, run.job.id))]
        run.end_us = end_us
        insort(self.ends, (end_us, run.sequence, run.job.id))
        self._rows.end_us[run.rows[0] : run.rows[1]] = end_us

    def any_below(self, priority_level: int) -> bool:
        """Whether a run has a lower priority."""
        return any(level < priority_level for level in self._levels)

    def overdue(self, now_us: int) -> list[Run]:
        """Runs past their predicted end."""
        late = []
        for end_us, _, job_id in self.ends:
            if end_us >= now_us:
                break
            late.append(self.by_id[job_id])
        return late

    def overstayed(self, now_us: int) -> list[Run]:
        """Runs past the time for which they were admitted."""
        return [self.by_id[job_id] for _, _, job_id in self.admissions[: bisect_left(self.admissions, (now_us,))]]

    def any_overstays_since(self, before_us: int, now_us: int) -> bool:
        """Whether the admitted time of a run ended in ``[before_us, now_us)``."""
        return bisect_left(self.admissions, (before_us,)) < bisect_left(self.admissions, (now_us,))

    def nth_card_free_us(self, n: int) -> int:
        """When the n-th of the cards held whole is released (after NEVER_US: there are fewer)."""
        if n > self._rows.count:
            return FOREVER_US
        if len(self.ends) * _ROWS_PER_RUN < self._rows.count:
            return self._nth_row_us(n)
        return int(np.partition(self._rows.end_us[: self._rows.count], n - 1)[n - 1])

    def _nth_row_us(self, n: int) -> int:
        """The same by runs: faster when each has many rows."""
        passed = 0
        for end_us, _, job_id in self.ends:
            first, last = self.by_id[job_id].rows
            passed += last - first
            if passed >= n:
                return end_us
        return _DEAD_US

    def cards_free_by(self, at_us: int) -> int:
        """Number of rows released by then."""
        return int(np.count_nonzero(self._rows.end_us[: self._rows.count] <= at_us))

    def release_until(self, space: Space, at_us: int) -> None:
        """Release in a copy of the space what is predicted to be free at that instant."""
        rows = self._rows
        due = np.flatnonzero(rows.end_us[: rows.count] <= at_us)
        space.release_rows(rows.card[due], rows.node[due],
                           self._table(space.fixed)[rows.kind[due]] if self.any_node_rows else None)  # fmt: skip
        for run in self.sharing.values():
            if run.end_us <= at_us:
                for part in run.placement.parts:
                    if run.job.groups[part.request_index][0].share is not None:  # the rest has rows
                        space.release_part(run.job, part)

    def _add_rows(self, run: Run, nodes: Ints, cards: Ints, group: int) -> None:
        request = run.job.groups[group][0]
        if request.share is not None:
            run.has_shares = True
            return
        if request.cpu_milli or request.memory_bytes or request.extras:
            self.any_node_rows = True
            self._rows.append(run.end_us, -1, nodes, self._kind(request))
        if request.gpus:
            self._rows.append(run.end_us, cards.ravel(), np.repeat(nodes, request.gpus), 0)

    def _kind(self, request: Request) -> int:
        """Index of the request in the table of amounts. Row 0 releases nothing of a node."""
        kind = self._kinds.get(request)
        if kind is None:
            kind = self._kinds[request] = len(self._kinds) + 1
            self._amounts = None
        return kind

    def _table(self, fixed: ClusterArrays) -> Ints:
        """What each kind of row releases of its node."""
        if self._amounts is None or self._amounts[0] is not fixed:
            nothing = np.zeros(2 + len(fixed.extra_index), dtype=np.int64)
            self._amounts = fixed, np.stack([nothing, *(fixed.amounts(request) for request in self._kinds)])
        return self._amounts[1]

    def _compact(self) -> None:
        runs = sorted((run for run in self.by_id.values() if run.rows[1] > run.rows[0]), key=lambda run: run.rows)
        blocks = [np.arange(*run.rows) for run in runs]
        self._rows.keep(np.concatenate(blocks) if blocks else np.empty(0, dtype=np.int64))
        at = 0
        for run, block in zip(runs, blocks, strict=True):
            run.rows = (at, at + len(block))
            at += len(block)
