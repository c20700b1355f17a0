"""Advice on what a job should request, from past runs, its offline estimate and the existing cards.

Reads the store on request, and only runs that ended since the last time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import structlog
from sqlalchemy import Connection

from gpusquad.model.fields import cores
from gpusquad.model.job import Job
from gpusquad.model.prediction import Quantiles
from gpusquad.predict.advice import AdviceInput, ResourceAdvice, RunUtilisation, advise, memory_warning, rounded_gib
from gpusquad.predict.host_advice import size_text
from gpusquad.predict.memory import PeakMemoryPredictor, PeakPrediction
from gpusquad.predict.similar_runs import RunSummary, groups_of
from gpusquad.server.services.jobs.eligible_nodes import ClusterRoom
from gpusquad.server.services.jobs.killed_runs import needed_bytes
from gpusquad.server.services.prediction.training import past_run
from gpusquad.spec.auto import auto_fields, parts_of, with_choices
from gpusquad.spec.convert import to_job
from gpusquad.spec.model import JobSpec
from gpusquad.store import attempts, people, run_forecasts, samples
from gpusquad.store.database import Database
from gpusquad.store.run_forecasts import BEFORE_ALL, PastRow, RunKey

_log = structlog.get_logger("gpusquad.advice")
MAX_HISTORY = 10_000
"""Past runs used."""
CHUNK = 500
SAMPLED_RUNS = 3
"""Number of recent runs whose card utilisation is looked up."""
MAX_SAMPLED_US = 6 * 3600 * 1_000_000
"""Only the last six hours of a long run: days of samples of many cards would take seconds to read."""
MIN_SAMPLES = 6
"""One minute of samples; fewer do not show how a card was used."""
MAX_REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class Note:
    """An event of the job."""

    kind: str
    """``advised`` or ``warned``."""
    text: str
    data: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The value of an open field."""

    field: str
    """``cpu``, or ``roles[1].cpu``."""
    value: int | float | str | None
    """As a job file writes it. None: left out."""
    amount: int | None
    """GPUs, bytes or thousandths of a core."""
    source: str
    """``history``, ``estimate``, ``fair share``, ``default``, or ``out of memory``."""
    why: str

    @property
    def name(self) -> str:
        """Of the field, without its role."""
        return parts_of(self.field)[1]

    @property
    def note(self) -> Note:
        shown = _ANY[self.name] if self.value is None else self.value
        return Note("advised", f"{self.field}: {shown} ({self.why})", {self.field: self.value, "source": self.source})

    def lowered_to(self, amount: int) -> Choice:
        """A smaller choice, because this one would make the job impossible."""
        why = f"{self.why}; lowered from {self.value}, which does not fit the cluster"
        return replace(self, value=_WRITTEN[self.name](amount), amount=amount, why=why)


@dataclass(frozen=True, slots=True)
class ResolvedJob:
    """A job with all open fields filled in."""

    spec: JobSpec
    job: Job
    choices: tuple[Choice, ...] = ()
    warnings: tuple[Note, ...] = ()

    @property
    def notes(self) -> tuple[Note, ...]:
        return *(choice.note for choice in self.choices), *self.warnings

    @property
    def resolved(self) -> dict[str, Any] | None:
        """As it is stored with the job. None: nothing was open."""
        return {"choices": [asdict(choice) for choice in self.choices]} if self.choices else None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to request, and the evidence."""

    job: Job
    advised: ResourceAdvice
    known: AdviceInput


class Advice:
    """Safe for any thread."""

    def __init__(
        self,
        database: Database,
        room: Callable[[], ClusterRoom],
        fit: Callable[[ResolvedJob], ResolvedJob] = lambda settled: settled,
    ) -> None:
        """``fit``: lowers choices that would make a job impossible."""
        self._database = database
        self._room = room
        self._fit = fit
        self._lock = threading.Lock()
        self._memory = PeakMemoryPredictor()
        self._last: RunKey | None = None
        self._uses: dict[str, RunUtilisation | None] = {}

    def recommend(self, job: Job, run: Quantiles | None = None, *, is_open: bool = False) -> Recommendation:
        """``run``: predicted run time as requested. ``is_open``: the number of GPUs is open."""
        self._catch_up()
        known = self._known(job, self._room(), run)
        return Recommendation(job, advise(job, known, is_open=is_open), known)

    def settle(self, specs: Sequence[JobSpec], jobs: Sequence[Job]) -> list[ResolvedJob]:
        """Fill in open fields, and warn about each job that requests less memory than similar jobs used. ``jobs``: the
        jobs of the specs as they are."""
        pairs = list(zip(specs, jobs, strict=True))
        if not any(auto_fields(spec) or _names_memory(job) for spec, job in pairs):
            return [ResolvedJob(spec, job) for spec, job in pairs]
        self._catch_up()
        space, chosen = self._room(), {}
        return [self._settle(spec, job, space, chosen) for spec, job in pairs]

    def _settle(self, spec: JobSpec, job: Job, space: ClusterRoom, chosen: dict[Any, Choice]) -> ResolvedJob:
        """``chosen``: results for other jobs of the submission. The jobs of a sweep are mostly alike."""
        warnings: list[Note] = []
        choices: list[Choice] = []
        for name in auto_fields(spec):
            asked = _of_role(job, name)
            alike = (name, job.tenant, asked.roles, job.expected, job.profile, *(g.key for g in groups_of(job)))
            if alike not in chosen:
                chosen[alike] = _choice(name, advise(asked, self._known(asked, space), is_open=name == "gpus"))
            choices.append(chosen[alike])
            spec = with_choices(spec, **{name: chosen[alike].value})
            job = to_job(spec, job.id, job.submitted_us, job.tenant, job.user).eligible_as(job)
        largest = max(space.of(job).card_bytes, default=0)
        if _names_memory(job) and (warning := memory_warning(job, self._peak(job), largest)):
            warnings.append(Note("warned", warning))
        return self._fit(ResolvedJob(spec, job, tuple(choices), tuple(warnings)))

    # -- evidence --------------------------------------------------------------------------------------------------

    def _known(self, job: Job, space: ClusterRoom, run: Quantiles | None = None) -> AdviceInput:
        with self._lock:
            circles, peak = self._memory.circles(job), self._memory.peak(job)
        group, runs = circles[0] if circles else (None, [])
        there = space.of(job)
        return AdviceInput(
            group, runs, peak, self._uses_of(runs), run, there.card_bytes, there.max_gpus,
            self._limit_gpus(job.tenant), there.room,
        )  # fmt: skip

    def _limit_gpus(self, tenant: str) -> int | None:
        with self._database.read() as connection:
            row = people.tenant(connection, tenant)
        return None if row is None else row.limit_gpus

    def _peak(self, job: Job) -> PeakPrediction | None:
        with self._lock:
            return self._memory.peak(job)

    def _catch_up(self) -> None:
        """Learn from the runs that ended since the last call."""
        with self._lock, self._database.read() as connection:
            if self._last is None:
                self._last = run_forecasts.first_to_learn(connection, MAX_HISTORY) or BEFORE_ALL
            while rows := run_forecasts.past_runs(connection, self._last, CHUNK):
                for row in rows:
                    self._learn(row)
                self._last = rows[-1].key

    def _learn(self, row: PastRow) -> None:
        try:
            past = past_run(row)
            self._memory.learn(replace(past, needed_memory_bytes=needed_bytes(row, past.job)))
        except Exception as error:  # a job that this release cannot parse
            _log.warning("past run not readable", job=row.job_id, error=repr(error))

    def _uses_of(self, runs: Sequence[RunSummary]) -> tuple[RunUtilisation, ...]:
        """Of the last runs with as many cards as the latest complete one."""
        whole = [seen for seen in runs if seen.is_whole and seen.gpus]
        last = [seen for seen in whole if seen.gpus == whole[-1].gpus][-SAMPLED_RUNS:]
        new = [seen.job_id for seen in last if seen.job_id not in self._uses]
        if new:
            with self._database.read() as connection:
                found = {job_id: use_of(connection, job_id) for job_id in new}
            with self._lock:
                if len(self._uses) > MAX_REMEMBERED:
                    self._uses.clear()
                self._uses.update(found)
        uses = [use for seen in last if (use := self._uses.get(seen.job_id)) is not None]
        return tuple(use for use in uses if len(use.busy) == last[-1].gpus)


def use_of(connection: Connection, job_id: str) -> RunUtilisation | None:
    """Card utilisation of the last attempt. None: not enough samples."""
    tries = attempts.of_job(connection, job_id)
    if not tries or tries[-1].ended_us is None or tries[-1].gpu_milli != 1000 * len(tries[-1].cards):
        return None  # other jobs use a shared card too
    last, ended_us = tries[-1], tries[-1].ended_us
    since_us = max(last.started_us, ended_us - MAX_SAMPLED_US)
    busy = []
    for card in dict.fromkeys(last.cards):
        mean, count = samples.busy(connection, card, since_us, ended_us)
        if mean is None or count < MIN_SAMPLES:
            return None
        busy.append(mean)
    return RunUtilisation(job_id, tuple(busy)) if busy else None


def _names_memory(job: Job) -> bool:
    """Whether it requests an amount of card memory."""
    return any(
        request.min_card_memory_bytes or (request.share is not None and not request.share.is_slot_only)
        for request, _ in job.groups
    )


def _of_role(job: Job, field: str) -> Job:
    """The job with the role of this field alone, or as it is."""
    role, _ = parts_of(field)
    return job if role is None else replace(job, roles=(job.roles[role],))


def _choice(field: str, advised: ResourceAdvice) -> Choice:
    """Value for an open field, as a job file writes it, where it is from, and why."""
    role, name = parts_of(field)
    found = {
        "gpus": advised.gpus, "gpu_memory": advised.memory, "cpu": advised.cpu_milli, "memory": advised.host_memory,
    }  # fmt: skip
    advice = found[name]
    if advice is None:
        value = 1 if name == "gpus" else None
        return Choice(field, value, 1 if name == "gpus" else None, "default", "no data on such jobs")
    # Runs are measured as a whole, so nothing is known of which role used how much.
    why = advice.why if role is None or advice.source != "history" else f"{advice.why}; by the largest task of each"
    return Choice(field, _WRITTEN[name](advice.value), advice.value, advice.source, why)


_WRITTEN: dict[str, Callable[[int], int | float | str]] = {
    "gpus": int, "gpu_memory": rounded_gib, "cpu": cores, "memory": size_text,
}  # fmt: skip
_ANY = {"gpu_memory": "any card", "cpu": "no limit", "memory": "no limit"}
