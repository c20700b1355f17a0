"""What is known of a job at submission, and of its owner's earlier runs, as a row of numbers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from math import log

import numpy as np

from gpusquad.model.job import Job
from gpusquad.model.program_family import family
from gpusquad.model.units import US_PER_S
from gpusquad.predict._bins import Floats

_HOUR_US = 3600 * US_PER_S
_DECAY = 0.8
"""Weight that a run keeps in a decaying mean when the next run ends."""
_UNKNOWN = -1.0
_FORGET_US = 60 * 86400 * US_PER_S
"""An owner not seen for two months counts as unknown."""


def log_s(us: float) -> float:
    """Run times differ by factors, so their logarithm is used. Anything below a second counts as a second."""
    return log(max(US_PER_S, us) / US_PER_S)


@dataclass(slots=True)
class OwnerHistory:
    """The last runs of one owner, or of one owner with one request or one kind of name."""

    runs: int = 0
    last: float = _UNKNOWN
    before: float = _UNKNOWN
    mean: float = _UNKNOWN
    square: float = 0.0
    used: float = 0.0
    """Logarithm of the used fraction of the estimate; decaying mean."""
    came_us: int = -_FORGET_US
    ended_us: int = -_FORGET_US
    running: dict[str, int] = field(default_factory=dict)

    def learn(self, length: float, used: float, at_us: int) -> None:
        if self.runs == 0:
            self.mean, self.square, self.used = length, length * length, used
        else:
            self.mean += (1 - _DECAY) * (length - self.mean)
            self.square += (1 - _DECAY) * (length * length - self.square)
            self.used += (1 - _DECAY) * (used - self.used)
        self.before, self.last, self.runs, self.ended_us = self.last, length, self.runs + 1, at_us

    @property
    def spread(self) -> float:
        return max(0.0, self.square - self.mean * self.mean) ** 0.5


class OwnerHistories:
    """Bounded. The owner seen least recently is evicted first."""

    def __init__(self, most: int = 100_000) -> None:
        self.most = most
        self._known: OrderedDict[Hashable, OwnerHistory] = OrderedDict()

    def row(self, job: Job) -> Floats:
        """The features of a job submitted now."""
        owner, asked, named = (self._of(key) or OwnerHistory() for key in _keys(job))
        now_us = job.submitted_us
        hour = now_us // _HOUR_US
        oldest_us = min(asked.running.values(), default=now_us)
        return np.array([
            _UNKNOWN if job.estimate_us is None else log_s(job.estimate_us),
            _UNKNOWN if job.limit_us is None else log_s(job.limit_us),
            log(max(1, job.tasks)), log(max(1, job.gpu_milli)),
            hour % 24, hour // 24 % 7,
            log(1 + owner.runs), owner.last, owner.before, owner.mean, owner.spread, owner.used,
            log(1 + asked.runs), asked.last, asked.before, asked.mean, asked.spread,
            log(1 + named.runs), named.last, named.mean, named.spread,
            _since(now_us, owner.came_us), _since(now_us, owner.ended_us),
            _since(now_us, asked.came_us), _since(now_us, asked.ended_us),
            len(owner.running), len(asked.running), log_s(now_us - oldest_us),
        ], dtype=np.float64)  # fmt: skip

    def came(self, job: Job) -> None:
        for key in _keys(job):
            self._for(key).came_us = job.submitted_us

    def begins(self, job: Job, at_us: int) -> None:
        for key in _keys(job):
            self._for(key).running[job.id] = at_us

    def ended(self, job: Job, run_us: int, at_us: int) -> None:
        used = 0.0 if job.estimate_us is None else log_s(run_us) - log_s(job.estimate_us)
        for key in _keys(job):
            self._for(key).learn(log_s(run_us), used, at_us)

    def stops(self, job: Job) -> None:
        """The job released its cards, for whatever reason."""
        for key in _keys(job):
            habit = self._of(key)
            if habit is not None:
                habit.running.pop(job.id, None)

    def similar_run_count(self, job: Job) -> int:
        """Number of known runs of the same owner with the same request or the same kind of name."""
        return max((habit.runs for key in _keys(job)[1:] if (habit := self._of(key)) is not None), default=0)

    def _of(self, key: Hashable) -> OwnerHistory | None:
        return self._known.get(key)

    def _for(self, key: Hashable) -> OwnerHistory:
        habit = self._known.get(key)
        if habit is None:
            habit = self._known[key] = OwnerHistory()
            if len(self._known) > self.most:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return habit


def _keys(job: Job) -> tuple[Hashable, Hashable, Hashable]:
    owner = (job.tenant, job.user)
    return owner, (owner, job.tasks, job.gpu_milli, job.estimate_us), (owner, family(job.name))


def _since(now_us: int, then_us: int) -> float:
    return log_s(min(_FORGET_US, now_us - then_us))
