"""Predicts from past runs: groups of ever more similar jobs each give a distribution, weighted by their past accuracy.

The groups' hazards are mixed on the scale of log odds with weights learned online, as data compressors mix their
contexts. A sharp, well-founded prediction counts more than several vague ones. The weight of a group depends on the
number of runs behind it at that point.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.prediction import PRIOR, PastRun, Quantiles, certain
from gpusquad.predict._bins import COUNT, Floats, bin_of, quantiles, shares
from gpusquad.predict._groups import RunGroups, tally
from gpusquad.predict._shipped_prior import shipped_hazards
from gpusquad.predict._similarity import KINDS, Features, Key, Owners
from gpusquad.predict.base import OnlinePredictor
from gpusquad.registry import register

_STEPS = np.array([0.3, 1.2, 3.0, 8.0, 25.0])
"""Classes of the number of runs behind a hazard. Each class has its own weight."""
_ROWS = len(KINDS) + 1
_ROW_INDEX = np.arange(_ROWS)[:, None] * (len(_STEPS) + 1)
_SHIPPED_RUNS = 0.5
"""Number of runs that the shipped prior counts for."""
_SHIPPED_AT_FIRST = 40
"""The same for jobs of which nothing is known, less the runs that were seen. Otherwise a handful of short tests of one
user would make the run times of all others look short."""
_PART_RUNS, _UNSEEN, _UNSEEN_OVERRUN = 0.5, 0.05, 0.3
"""Number of runs that the default hazards by the used fraction of the estimate count for, and these hazards below and
above the estimate. Few jobs take many times as long as estimated, so cut runs of others must not make that likely."""
_PART_HAZARDS = np.repeat([_UNSEEN, _UNSEEN_OVERRUN], COUNT)
_MIN_HAZARD = 1e-4
_BASE_DECAY = 0.9995
_OWN_LIMIT = 0.005
"""If a smaller fraction of runs exceeds the estimate, estimates are treated as limits."""
_OVERRUN_DECAY, _OVERRUN_FORGOTTEN = 0.98, 0.1
"""Decay of an owner's overruns: estimates count again after about a hundred runs."""
_MAX_RUNNING = 100_000
_MANY = 64
_FOUND_KEPT = 256
_ROWS_WITH_RUNNING = [
    index + 1 for index, kind in enumerate(KINDS) if kind.name in ("lately", "asked", "alike", "again")
]
_NAMED = 1 + [kind.name for kind in KINDS].index("named")
_NAME_PART, _NAME_RUNS = 0.5, 1.5
"""Largest weight of a group by name, and the number of its runs at which it has half of that. Without it, the many
groups that ignore names would outvote a name that explains everything.
"""
_KIND_INDEX = {kind.name: index for index, kind in enumerate(KINDS)}
_FEW = 5
"""With fewer runs of the owner, or of jobs that are alike, a job without an estimate counts as not known."""
_SAME_NAME, _SAME_REQUEST = ("named", "program"), ("alike", "sized")


@dataclass
class _GroupPredictions:
    """The predictions of the groups for one job."""

    odds: Floats
    """Log odds of ending in each bin, one row per group. The first row is the group of all jobs."""
    trust: np.ndarray
    """Index of the weight of each."""
    hazards: Floats
    """The mixed log odds."""


@register("predictor", "history")
@dataclass
class History(OnlinePredictor):
    """Similar past runs, with more weight on the more accurate groups."""

    rate: float = 5e-5
    """Learning rate of the weights."""
    prior: float = 1.0
    """Number of runs that the experience of all jobs counts for in a small group."""
    groups: int = 100_000
    """Largest number of groups of each kind."""

    format = 2

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 0.01:
            raise Invalid("predictor.history.rate", f"{self.rate} is not between 0 and 0.01")
        if self.groups < 1 or self.prior <= 0:
            raise Invalid("predictor.history", "groups and prior must be above zero")
        self._owners = Owners(self.groups)
        self._groups = [RunGroups(kind, self.groups) for kind in KINDS]
        self._weights = np.full(_ROWS * (len(_STEPS) + 1), 1.2 / _ROWS)
        self._all_ended, self._all_reached = np.zeros(COUNT), np.zeros(COUNT)
        self._part_ended, self._part_reached = np.zeros(2 * COUNT), np.zeros(2 * COUNT)
        """Bins of the used fraction of the estimate."""
        self._past_estimate = 1.0
        self._overruns: OrderedDict[Key, float] = OrderedDict()
        """Owners who recently exceeded an estimate, so that a few of them do not make all other estimates worthless."""
        self._running: dict[Key, dict[str, int]] = {}
        self._request_of_running: OrderedDict[str, Key] = OrderedDict()
        self.runs = 0
        self._found: dict[tuple[Features, tuple[int, ...]], _GroupPredictions] = {}
        """Predictions since the last run that was learned."""

    def predict(self, job: Job) -> Quantiles:
        if not self.runs and job.estimate_us is not None:
            return estimated(job.estimate_us)
        part, source, confidence = self.distribution(job)
        return quantiles(part, source, confidence, self.max_us(job))

    def distribution(self, job: Job) -> tuple[Floats, str, float]:
        """The fraction of similar runs that ends in each bin, its source, and its evidence."""
        features = self._owners.features(job)
        self._owners.submitted(job)
        known = max(self._count(name, features) for name in ("owner", "tenant", *_SAME_NAME))
        if job.estimate_us is None and not known:
            shipped_runs = max(_SHIPPED_RUNS, _SHIPPED_AT_FIRST - self.runs)
            return shares(self._base_hazards(job, np.zeros(COUNT), shipped_runs), self._last_bin(job)), PRIOR, 0.0
        hazards = self._predict_groups(job, features).hazards
        part = shares(hazards, self._last_bin(job))
        if job.estimate_us is None and known < _FEW:
            return part, PRIOR, 0.0
        return part, "history", self._confidence(features)

    def begin(self, job: Job, at_us: int) -> None:
        """Note that a job runs now. Similar jobs learn from its elapsed time."""
        self._forget_running(job)
        request = self._request_of_running[job.id] = _request(job)
        self._running.setdefault(request, {})[job.id] = at_us
        if len(self._request_of_running) > _MAX_RUNNING:
            self._forget_running_id(next(iter(self._request_of_running)))

    def learn(self, run: PastRun) -> None:
        job, bin_ = run.job, bin_of(run.run_us)
        self._forget_running(job)
        features = self._owners.features(job)
        if self.runs:
            self._adjust(self._predict_groups(job, features), bin_, run.was_cut or bin_ == self._last_bin(job))
        for group, kind in zip(self._groups, KINDS, strict=True):
            key = kind.key(features)
            if key is not None:
                group.learn(key, bin_, run.was_cut)
        self._learn_base(run, bin_)
        if not run.was_cut:
            self._owners.ended(job, bin_)
        self.runs += 1
        self._found.clear()

    # -- mixing ----------------------------------------------------------------------------------------------------

    def _predict_groups(self, job: Job, features: Features) -> _GroupPredictions:
        """Jobs that are alike get the same prediction until the next run is learned."""
        key = features, tuple(self._running_bins(job))
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= _FOUND_KEPT:
                self._found.clear()
            found = self._found[key] = self._mix(job, *key)
        return found

    def _mix(self, job: Job, features: Features, running: Sequence[int]) -> _GroupPredictions:
        ended, reached = np.zeros((_ROWS, COUNT)), np.zeros((_ROWS, COUNT))
        base = self._base_hazards(job, reached[0])
        keys = [kind.key(features) for kind in KINDS]
        tally(list(zip(self._groups, keys, strict=True)), ended[1:], reached[1:])
        _count_running(running, reached)
        hazards = (ended + self.prior * base) / (reached + self.prior)
        hazards[0] = base
        np.clip(hazards, _MIN_HAZARD, 1 - _MIN_HAZARD, out=hazards)
        odds = np.log(hazards / (1 - hazards))
        trust = np.searchsorted(_STEPS, reached.ravel(), side="right").reshape(_ROWS, COUNT) + _ROW_INDEX
        mixed = (self._weights[trust] * odds).sum(axis=0)
        if features.name:
            known = reached[_NAMED] / (reached[_NAMED] + _NAME_RUNS)
            mixed += _NAME_PART * known * (odds[_NAMED] - mixed)
        return _GroupPredictions(odds, trust, 1 / (1 + np.exp(-np.clip(mixed, -9.0, 9.0))))

    def _adjust(self, groups: _GroupPredictions, bin_: int, only_reached: bool) -> None:
        """Move the weights towards what would have predicted this run."""
        known = bin_ if only_reached else bin_ + 1
        if not known:
            return
        error = groups.hazards[:known].copy()
        if not only_reached:
            error[bin_] -= 1.0
        steps = (error * groups.odds[:, :known]).ravel()
        self._weights -= self.rate * np.bincount(groups.trust[:, :known].ravel(), steps, len(self._weights))

    def _base_hazards(self, job: Job, reached: Floats, shipped_runs: float = _SHIPPED_RUNS) -> Floats:
        """The widest group: by the used fraction of the estimate, if the job has one."""
        if job.estimate_us is None:
            reached += self._all_reached
            shipped = shipped_runs * shipped_hazards(job)
            return (self._all_ended + shipped) / (self._all_reached + shipped_runs)
        first = COUNT - 1 - bin_of(job.estimate_us)
        window = slice(first, first + COUNT)
        reached += self._part_reached[window]
        unseen = _PART_RUNS * _PART_HAZARDS[window]
        return (self._part_ended[window] + unseen) / (self._part_reached[window] + _PART_RUNS)

    def _learn_base(self, run: PastRun, bin_: int) -> None:
        self._all_ended *= _BASE_DECAY
        self._all_reached *= _BASE_DECAY
        _count(self._all_ended, self._all_reached, 0, bin_, run.was_cut)
        estimate_us = run.job.estimate_us
        if estimate_us is not None:
            self._part_ended *= _BASE_DECAY
            self._part_reached *= _BASE_DECAY
            first = COUNT - 1 - bin_of(estimate_us)
            _count(self._part_ended, self._part_reached, first, first + bin_, run.was_cut)
            self._learn_overrun(run, run.run_us > estimate_us * 1.01)

    def _learn_overrun(self, run: PastRun, past: bool) -> None:
        """Track whether estimates are exceeded. A run that was cut earlier is no evidence, unless its limit cut it."""
        if run.was_cut and run.how != "timed_out" and not past:
            return
        self._past_estimate += (past - self._past_estimate) / min(self.runs + 1, 1000)
        owner = (run.job.tenant, run.job.user)
        if past:
            self._overruns[owner] = 1.0
            self._overruns.move_to_end(owner)
            if len(self._overruns) > self.groups:
                self._overruns.popitem(last=False)
        elif owner in self._overruns:
            self._overruns[owner] *= _OVERRUN_DECAY
            if self._overruns[owner] < _OVERRUN_FORGOTTEN:
                del self._overruns[owner]

    # -- running jobs and upper bounds -----------------------------------------------------------------------------

    def _running_bins(self, job: Job) -> Iterator[int]:
        """How long the running jobs with the same request have run."""
        return (bin_of(job.submitted_us - at_us) for at_us in self._running.get(_request(job), {}).values())

    def _forget_running(self, job: Job) -> None:
        if job.id in self._request_of_running:
            self._forget_running_id(job.id)

    def _forget_running_id(self, job_id: str) -> None:
        request = self._request_of_running.pop(job_id)
        running = self._running[request]
        del running[job_id]
        if not running:
            del self._running[request]

    def max_us(self, job: Job) -> int | None:
        """Upper bound of the run time: the limit, or the estimate if estimates are treated as limits."""
        limits = [job.limit_us] if job.limit_us is not None else []
        keeps = self._past_estimate < _OWN_LIMIT and (job.tenant, job.user) not in self._overruns
        if job.estimate_us is not None and keeps:
            limits.append(job.estimate_us)
        return min(limits, default=None)

    def _last_bin(self, job: Job) -> int | None:
        max_us = self.max_us(job)
        return None if max_us is None else bin_of(max_us)

    def _confidence(self, features: Features) -> float:
        """By the number of runs that are alike. Where jobs have names, the same request alone says little."""
        runs = max(self._ended(name, features) for name in _SAME_REQUEST)
        if features.name or features.program:
            runs = max(min(runs, 1), *(self._ended(name, features) for name in _SAME_NAME))
        return 1.0 - exp(-runs / 4)

    def _count(self, kind: str, features: Features) -> int:
        """Number of runs in the job's group of this kind."""
        index = _KIND_INDEX[kind]
        return self._groups[index].count(KINDS[index].key(features))

    def _ended(self, kind: str, features: Features) -> int:
        """The same without those that were cut short."""
        index = _KIND_INDEX[kind]
        return self._groups[index].ended(KINDS[index].key(features))

    # -- serialisation ---------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        return {
            "runs": self.runs,
            "kinds": [kind.name for kind in KINDS],
            "weights": self._weights.tolist(),
            "past_estimate": self._past_estimate,
            "overruns": [[list(owner), value] for owner, value in self._overruns.items()],
            "all": [self._all_ended.tolist(), self._all_reached.tolist()],
            "part": [self._part_ended.tolist(), self._part_reached.tolist()],
            "groups": [group.dump() for group in self._groups],
            "owners": self._owners.dump(),
        }

    def load(self, dumped: dict[str, Any]) -> None:
        if dumped["kinds"] != [kind.name for kind in KINDS]:
            raise ValueError("written for other kinds of groups")
        self.__post_init__()
        self.runs = int(dumped["runs"])
        self._past_estimate = float(dumped["past_estimate"])
        self._overruns.update(((str(tenant), str(user)), float(value)) for (tenant, user), value in dumped["overruns"])
        _fill(dumped["weights"], self._weights)
        for rows, arrays in (("all", (self._all_ended, self._all_reached)),
                             ("part", (self._part_ended, self._part_reached))):  # fmt: skip
            for row, array in zip(dumped[rows], arrays, strict=True):
                _fill(row, array)
        for group, kept in zip(self._groups, dumped["groups"], strict=True):
            group.load(kept)
        self._owners.load(dumped["owners"])


def _count_running(bins: Sequence[int], reached: Floats) -> None:
    """Each running job has reached its bin and may continue."""
    if not bins:
        return
    rows = reached[_ROWS_WITH_RUNNING]
    if len(bins) > _MANY:
        came = np.bincount(bins, minlength=COUNT)
        rows += came[::-1].cumsum()[::-1] - came
    else:
        for far in bins:
            rows[:, :far] += 1.0
    reached[_ROWS_WITH_RUNNING] = rows


def _fill(values: list[float], array: Floats) -> None:
    found = np.asarray(values, dtype=np.float64)
    if found.shape != array.shape or not np.isfinite(found).all():
        raise ValueError("not as many numbers as there should be")
    array[:] = found


def estimated(estimate_us: int) -> Quantiles:
    """The user's estimate, taken at its word."""
    return certain(max(1, estimate_us), "user")


def _count(ended: Floats, reached: Floats, first: int, bin_: int, was_cut: bool) -> None:
    if was_cut:
        reached[first:bin_] += 1.0
    else:
        ended[bin_] += 1.0
        reached[first : bin_ + 1] += 1.0


def _request(job: Job) -> Key:
    return (job.tenant, job.user, job.tasks, job.gpus, job.gpu_milli, job.estimate_us)
