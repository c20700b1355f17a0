"""The past runs that a job is compared with: ever wider groups of jobs, with more weight on the latest runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpusquad.model.job import Job
from gpusquad.model.program_family import family
from gpusquad.model.units import US_PER_S
from gpusquad.predict._bins import PER_OCTAVE, bin_of

Key = tuple[object, ...]
_HALF_DAY_US = 12 * 3600 * US_PER_S
_NONE = -1


@dataclass(frozen=True, slots=True)
class Features:
    """What is known of a job at submission, and of its owner's earlier runs."""

    owner: Key
    shape: Key
    estimate: int
    """Bin of the estimate. -1: no estimate."""
    estimate_us: int | None
    name: str
    program: str
    half_day: int
    last: tuple[int, int]
    """Bins of the owner's last two runs."""
    last_alike: int
    """Bin of the owner's last run with the same request."""
    again: bool
    """The request equals that of the owner's last job."""


class Owners:
    """A short record of every owner, bounded: the owner seen least recently is evicted first."""

    def __init__(self, most: int = 100_000) -> None:
        self.most = most
        self.last: OrderedDict[Key, tuple[int, int]] = OrderedDict()
        self.alike: OrderedDict[Key, int] = OrderedDict()
        self.asked: OrderedDict[Key, Key] = OrderedDict()

    def features(self, job: Job) -> Features:
        owner: Key = (job.tenant, job.user)
        shape: Key = (job.tasks, job.gpus, job.gpu_milli)
        request: Key = (shape, job.estimate_us)
        return Features(
            owner=owner,
            shape=shape,
            estimate=_NONE if job.estimate_us is None else bin_of(job.estimate_us),
            estimate_us=job.estimate_us,
            name=family(job.name),
            program=family(job.app or job.command),
            half_day=job.submitted_us // _HALF_DAY_US % 2,
            last=self.last.get(owner, (_NONE, _NONE)),
            last_alike=self.alike.get((owner, request), _NONE),
            again=self.asked.get(owner) == request,
        )

    def submitted(self, job: Job) -> None:
        owner = (job.tenant, job.user)
        _remember(self.asked, owner, ((job.tasks, job.gpus, job.gpu_milli), job.estimate_us), self.most)

    def ended(self, job: Job, bin_: int) -> None:
        owner = (job.tenant, job.user)
        request = ((job.tasks, job.gpus, job.gpu_milli), job.estimate_us)
        _remember(self.last, owner, (bin_, self.last.get(owner, (_NONE, _NONE))[0]), self.most)
        _remember(self.alike, (owner, request), bin_, self.most)

    def dump(self) -> dict[str, list]:
        return {name: [[key, value] for key, value in getattr(self, name).items()] for name in _KEPT}

    def load(self, dumped: dict[str, list]) -> None:
        for name in _KEPT:
            rows = dumped[name][-self.most :]
            kept = ((as_key(key), as_key(value) if isinstance(value, list) else value) for key, value in rows)
            setattr(self, name, OrderedDict(kept))


_KEPT = ("last", "alike", "asked")


def as_key(plain: object) -> Any:
    """Convert a list from JSON, which has no tuples."""
    return tuple(as_key(part) for part in plain) if isinstance(plain, list) else plain


@dataclass(frozen=True, slots=True)
class SimilarityKey:
    """One criterion for which jobs are similar."""

    name: str
    keeps: float
    """Weight that a run keeps when the next run of its group ends."""
    key: Callable[[Features], Key | None]
    """The key of a job. None: the criterion does not apply to this job."""


def _named(f: Features) -> Key | None:
    return (f.owner, f.name) if f.name else None


def _program(f: Features) -> Key | None:
    return (f.owner[0], f.program) if f.program else None


_COARSE = 2
KINDS = (
    SimilarityKey("estimate", 0.998, lambda f: (f.estimate_us,)),
    SimilarityKey("tenant", 0.99, lambda f: (f.owner[0], f.shape)),
    SimilarityKey("owner", 0.97, lambda f: f.owner),
    SimilarityKey("lately", 0.6, lambda f: f.owner),
    SimilarityKey("asked", 0.9, lambda f: (f.owner, f.estimate_us)),
    SimilarityKey("sized", 0.9, lambda f: (f.owner, f.shape)),
    SimilarityKey("alike", 0.85, lambda f: (f.owner, f.shape, f.estimate_us)),
    SimilarityKey("again", 0.5, lambda f: (f.owner, f.shape, f.estimate_us)),
    SimilarityKey("named", 0.85, _named),
    SimilarityKey("program", 0.9, _program),
    SimilarityKey("after", 0.85, lambda f: (f.owner, f.shape, f.estimate_us, f.last_alike // _COARSE)),
    SimilarityKey("habit", 0.998, lambda f: (f.last[0] // _COARSE, f.last[1] // _COARSE, f.again)),
    SimilarityKey("step", 0.998, lambda f: (f.last_alike // _COARSE, f.estimate // _COARSE)),
    SimilarityKey("time", 0.9, lambda f: (f.owner, f.half_day)),
)
assert PER_OCTAVE % _COARSE == 0


def _remember(kept: OrderedDict, key: Key, value: object, most: int) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
