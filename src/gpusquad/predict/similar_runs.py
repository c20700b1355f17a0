"""Finds past runs of the same kind: by owner, by name without its changing parts, by app and by program."""

from __future__ import annotations

import re
import textwrap
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from gpusquad.model.job import Job
from gpusquad.model.prediction import How, PastRun
from gpusquad.predict.base import OnlinePredictor

MIN_WEIGHT = 0.6
"""Of a group whose runs may outweigh an offline estimate: the same name, or the same application. Runs of the same
script may have had other arguments."""
LAST = 20
"""Runs kept of each kind and number of GPUs."""
MAX_KINDS = 20_000
_COUNTING = frozenset({
    "attempt", "batch", "bs", "chunk", "config", "dropout", "epoch", "epochs", "exp", "fold", "gpu", "gpus", "id",
    "iter", "job", "lr", "n", "node", "part", "point", "rank", "rep", "round", "run", "sample", "seed", "shard", "size",
    "split", "step", "steps", "sweep", "task", "trial", "try", "v", "version", "wave", "wd", "worker",
})  # fmt: skip
"""Words that name what the following number counts. Jobs that differ only in it are similar."""
_TOKEN = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"(?<![^\W_])[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![^\W_])")
_ATTACHED = re.compile(r"([^\W\d_]+)[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![^\W_])")
_HASH = re.compile(r"(?<![^\W_])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,}(?![^\W_])")
_SCRIPT = re.compile(r"[\w./+-]+\.(?:py|sh|R|jl|ipynb)\b")
_MAX_CHARS = 256
_MAX_SHOWN = 60


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run, with what advice needs."""

    job_id: str
    gpus: int
    run_us: int
    how: How
    ended_us: int = 0
    peak_bytes: int | None = None
    cpu_milli: int | None = None
    host_memory_bytes: int | None = None
    cpu_limit_milli: int = 0
    """CPU of one task that it requested. 0: no limit."""
    needed_bytes: int = 0
    """Main memory to request next, because a task was killed for lack of it. 0: none was."""

    @property
    def is_whole(self) -> bool:
        """Whether the run completed. Other runs may not have reached their peak, nor done all their work."""
        return self.how == "succeeded"


class RunGroup(NamedTuple):
    """A group of runs that are evidence for a job."""

    name: str
    """Text for users: "your runs of resnet50"."""
    key: tuple[str, ...]
    weight: float
    """How much such runs predict of this job, at most 1."""


class SimilarRuns(OnlinePredictor):
    """The last runs of every kind, by number of GPUs."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, ...], dict[int, deque[RunSummary]]] = {}

    def learn(self, run: PastRun) -> None:
        job = run.job
        gpus = 0 if job.is_elastic else job.gpus  # the number of tasks of an elastic job is not known
        limit_milli = max(request.cpu_milli for request, _ in job.groups)
        seen = RunSummary(
            job.id, gpus, run.run_us, run.how, run.ended_us, run.peak_memory_bytes, run.cpu_milli,
            run.host_memory_bytes, limit_milli, run.needed_memory_bytes,
        )  # fmt: skip
        for group in groups_of(job):
            self._add(group.key, seen)

    def fit(self, history: Iterable[PastRun]) -> None:
        """Learn past runs. Nothing is learned from errors, so no predictions are made."""
        for run in history:
            self.learn(run)

    def circles(self, job: Job) -> list[tuple[RunGroup, list[RunSummary]]]:
        """The groups of runs that are evidence for a job, most similar first. In each, the latest run is last."""
        return [
            (group, sorted((seen for runs in sizes.values() for seen in runs), key=_age))
            for group in groups_of(job)
            if (sizes := self._groups.get(group.key)) is not None
        ]

    def dump(self) -> dict[str, Any]:
        groups = [[list(key), [list(astuple(summary)) for summary in seen]] for key, seen in self._all()]
        return {"format": self.format, "groups": groups}

    def load(self, dumped: dict[str, Any]) -> None:
        if dumped["format"] != self.format:
            raise ValueError(f"format {dumped['format']!r} is not {self.format}")
        groups = [(tuple(map(str, key)), [RunSummary(*row) for row in rows]) for key, rows in dumped["groups"]]
        self._groups = {}
        for key, rows in groups:
            for seen in rows:
                self._add(key, seen)

    def _all(self) -> Iterator[tuple[tuple[str, ...], list[RunSummary]]]:
        for key, sizes in self._groups.items():
            yield key, [seen for runs in sizes.values() for seen in runs]

    def _add(self, key: tuple[str, ...], seen: RunSummary) -> None:
        sizes = self._groups.pop(key, {})
        self._groups[key] = sizes  # move to the end: the first entry is the least recently used
        runs = sizes.setdefault(seen.gpus, deque(maxlen=LAST))
        for earlier in [other for other in runs if other.job_id == seen.job_id]:
            runs.remove(earlier)  # replace an attempt that was cut: the last one is better evidence
            if not seen.is_whole:
                seen = replace(seen, needed_bytes=max(seen.needed_bytes, earlier.needed_bytes))
        runs.append(seen)
        if len(self._groups) > MAX_KINDS:
            del self._groups[next(iter(self._groups))]


def groups_of(job: Job) -> list[RunGroup]:
    """From the most similar group to the widest. Runs of other tenants are never shown."""
    kind, script = kind_of(job.name) or kind_of(job.command), script_of(job.command)
    who = job.user or job.tenant
    found = []
    if kind:
        shown = textwrap.shorten(kind, _MAX_SHOWN, placeholder=" …")
        found.append(RunGroup(f"runs of {shown} by {who}", ("user", job.tenant, job.user, kind), 1.0))
        found.append(RunGroup(f"runs of {shown} in {job.tenant}", ("tenant", job.tenant, kind), 0.7))
    if job.app:
        found.append(RunGroup(f"runs of the application {job.app}", ("app", job.tenant, job.app), 0.6))
    if script:
        found.append(RunGroup(f"runs of {script} by {who}", ("script", job.tenant, job.user, script), 0.5))
    return found


@lru_cache(maxsize=65536)
def kind_of(text: str) -> str:
    """A name without its changing parts: ``resnet50-lr0.1-run7`` and ``resnet50-lr1-run8`` are similar."""
    text = _HASH.sub(" ", text[:_MAX_CHARS].lower())
    text = _ATTACHED.sub(lambda found: found[1] if found[1] in _COUNTING else found[0], text)
    tokens = _TOKEN.findall(_NUMBER.sub(" ", text))
    words = [token for token in tokens if not token.isdecimal() and token not in _COUNTING]
    return " ".join(dict.fromkeys(words))


@lru_cache(maxsize=65536)
def script_of(command: str) -> str:
    """The program's own file, if one is named."""
    found = _SCRIPT.search(command)
    return found[0].rsplit("/", 1)[-1] if found else ""


def _age(seen: RunSummary) -> int:
    return seen.ended_us
