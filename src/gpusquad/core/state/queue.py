"""The pending queue, sorted, with the numbers for fast filtering in arrays."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gpusquad.core.state.lanes import Lane
from gpusquad.core.state.runs import FOREVER_US, NEVER_US
from gpusquad.model.job import Job
from gpusquad.model.placement import Ints
from gpusquad.model.priority import precedence
from gpusquad.model.views import RunTimePrediction

Key = Callable[[Job], tuple]


def with_least_tasks_us(job: Job, run_us: int) -> int:
    """Run time of an elastic gang with its minimum number of tasks. Rounded up like the predicted end of a run."""
    return -(-run_us * job.tasks // sum(low for low, _ in job.bounds)) if job.is_elastic else run_us


@dataclass(slots=True, eq=False)
class PendingJob:
    """A pending job."""

    job: Job
    prediction: RunTimePrediction
    shape: int
    """Number of its shape: jobs with equal requests have the same."""
    sequence: int
    """Arrival number: breaks ties."""
    lane: Lane
    attempt: int = 0
    kept_us: int = 0
    """Work of earlier attempts that a checkpoint kept."""
    served_gpu_us: int = 0
    preemptions: int = 0
    is_new: bool = True
    """No cycle has considered it yet."""
    blocked: bool = False
    """Over its tenant's or lane's limit: skipped, without a reservation."""
    rank: tuple = ()
    stay_us: int = 0
    """Predicted time on its cards (high quantile, or its word). Elastic gangs: with their minimum number of tasks."""
    must_place: bool = False
    """See ``Trial.must_place``."""
    due_us: int | None = None
    """When it should start at the latest, cached from the order policy."""

    def __post_init__(self) -> None:
        self.set_caution(careful=False)

    def set_caution(self, careful: bool) -> None:
        """Choose the quantile for ``stay_us``."""
        job, prediction = self.job, self.prediction
        high_us = prediction.high_us if prediction.word_us is None else prediction.word_us
        if careful and prediction.careful_us is not None:
            high_us = prediction.careful_us
        high_us = with_least_tasks_us(job, high_us)
        self.stay_us = min(high_us, FOREVER_US)

    @property
    def admitted_us(self) -> int:
        """Time for which it is admitted if it starts now: its stay, or the time by which its end is promised to others
        if that is longer. It is not blamed for a stay that was known to be likely, unless it was admitted on its
        word."""
        if self.prediction.word_us is not None:
            return self.stay_us
        last_us = with_least_tasks_us(self.job, self.prediction.last_us)
        return min(max(self.stay_us, last_us), FOREVER_US)

    def cluster_time_us(self, gpus: int, horizon_us: int) -> float:
        """Time it occupies the whole cluster, at most ``horizon_us``. Of gangs wider than half of the cluster only one
        can run at a time. An unknown run time counts as 0, because it would make all jobs behind it late."""
        asked, expected_us = self.job.gpu_milli, self.prediction.expected_us
        if not asked or expected_us >= NEVER_US:
            return 0.0
        return min(expected_us, horizon_us) / max(1, gpus * 1000 // asked)


class Queue:
    """Pending jobs sorted by rank, smallest first."""

    def __init__(self) -> None:
        self._waiting: list[PendingJob] = []
        self._ranks: list[tuple] = []
        self._by_id: dict[str, PendingJob] = {}
        self._shape = np.zeros(64, dtype=np.int64)
        self._stay_us = np.zeros(64, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[PendingJob]:
        return iter(self._waiting)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._by_id

    def __getitem__(self, job_id: str) -> PendingJob:
        return self._by_id[job_id]

    def at(self, position: int) -> PendingJob:
        return self._waiting[position]

    @property
    def shapes(self) -> Ints:
        """Shape number of each job, in order."""
        return self._shape[: len(self._waiting)]

    @property
    def stay_us(self) -> Ints:
        """``stay_us`` of each job, in order."""
        return self._stay_us[: len(self._waiting)]

    def insert(self, waiting: PendingJob, key: Key) -> int:
        """Insert a job by rank and return its position."""
        self._by_id[waiting.job.id] = waiting  # first, because the order policy may query it
        waiting.rank = rank_of(waiting, key)
        position = bisect_left(self._ranks, waiting.rank)
        self._make_room(position)
        self._ranks.insert(position, waiting.rank)
        self._waiting.insert(position, waiting)
        self._shape[position] = waiting.shape
        self._stay_us[position] = waiting.stay_us
        return position

    def remove(self, job_id: str) -> PendingJob:
        waiting = self._by_id.pop(job_id)
        position = self.position(waiting)
        count = len(self._waiting)
        del self._waiting[position]
        del self._ranks[position]
        for array in (self._shape, self._stay_us):
            array[position : count - 1] = array[position + 1 : count]
        return waiting

    def position(self, waiting: PendingJob) -> int:
        return bisect_left(self._ranks, waiting.rank)

    def resort(self, key: Key) -> bool:
        """Rank all jobs again; returns whether the order changed."""
        ranked = [(rank_of(w, key), w) for w in self._waiting]
        changed = any(a[0] > b[0] for a, b in pairwise(ranked))
        if changed:
            ranked.sort(key=lambda pair: pair[0])
        self._ranks = [rank for rank, _ in ranked]
        self._waiting = [w for _, w in ranked]
        for rank, waiting in ranked:
            waiting.rank = rank
        if changed:
            count = len(ranked)
            self._shape[:count] = [w.shape for w in self._waiting]
            self._stay_us[:count] = [w.stay_us for w in self._waiting]
        return changed

    def reposition(self, waiting: PendingJob, key: Key) -> bool:
        """Rank one job again and update its stay; returns whether the order changed."""
        before = self.position(waiting)
        rank = rank_of(waiting, key)
        if rank == waiting.rank:
            self._stay_us[before] = waiting.stay_us
            return False
        self.remove(waiting.job.id)
        return self.insert(waiting, lambda _: rank[1:-1]) != before

    def set_caution(self, careful: bool) -> None:
        """Choose the quantile for the stays of all jobs."""
        for waiting in self._waiting:
            waiting.set_caution(careful)
        self._stay_us[: len(self._waiting)] = [w.stay_us for w in self._waiting]

    def _make_room(self, position: int) -> None:
        count = len(self._waiting)
        if count == len(self._shape):
            self._shape = np.concatenate((self._shape, np.zeros_like(self._shape)))
            self._stay_us = np.concatenate((self._stay_us, np.zeros_like(self._stay_us)))
        for array in (self._shape, self._stay_us):
            array[position + 1 : count + 1] = array[position:count]


def rank_of(waiting: PendingJob, key: Key) -> tuple:
    """Urgent jobs first, then by the order policy's key, then by arrival."""
    return (precedence(waiting.job.priority), *key(waiting.job), waiting.sequence)
