"""Advice on what a job should request, from past runs, its offline estimate and the existing cards.

Reads the store on request, and only runs that ended since the last time.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog
from sqlalchemy import Connection

from gpusquad.model.cluster import Cluster
from gpusquad.model.job import Job
from gpusquad.model.prediction import Quantiles
from gpusquad.predict.advice import AdviceInput, ResourceAdvice, RunUtilisation, advise, memory_warning, rounded_gib
from gpusquad.predict.memory import PeakMemoryPredictor, PeakPrediction
from gpusquad.predict.similar_runs import RunSummary, groups_of
from gpusquad.server.services.prediction.training import past_run
from gpusquad.spec.auto import auto_fields, with_choices
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


class AdviceCard(NamedTuple):
    """A card for advice."""

    node: str
    model: str
    memory_bytes: int


class EligibleCards:
    """Cards of the cluster, by the models a job may run on."""

    def __init__(self, cards: Iterable[AdviceCard]) -> None:
        self._cards = list(cards)
        self._found: dict[frozenset[str], tuple[tuple[int, ...], int]] = {}

    def of(self, job: Job) -> tuple[tuple[int, ...], int]:
        """Memory sizes of the cards it may run on, and the largest number of them on one node."""
        models = frozenset(model for request, _ in job.groups for model in request.gpu_models)
        if models not in self._found:
            cards = [card for card in self._cards if not models or card.model in models]
            nodes = Counter(card.node for card in cards)
            sizes = tuple(sorted({card.memory_bytes for card in cards}))
            self._found[models] = (sizes, max(nodes.values(), default=1))
        return self._found[models]


@dataclass(frozen=True, slots=True)
class Note:
    """An event of the job."""

    kind: str
    """``advised`` or ``warned``."""
    text: str
    data: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ResolvedJob:
    """A job with all open fields filled in."""

    spec: JobSpec
    job: Job
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to request, and the evidence."""

    job: Job
    advised: ResourceAdvice
    known: AdviceInput


class Advice:
    """Safe for any thread."""

    def __init__(self, database: Database, cards: Callable[[], Iterable[AdviceCard]]) -> None:
        self._database = database
        self._cards = cards
        self._lock = threading.Lock()
        self._memory = PeakMemoryPredictor()
        self._last: RunKey | None = None
        self._uses: dict[str, RunUtilisation | None] = {}

    def recommend(self, job: Job, run: Quantiles | None = None, *, is_open: bool = False) -> Recommendation:
        """``run``: predicted run time as requested. ``is_open``: the number of GPUs is open."""
        self._catch_up()
        known = self._known(job, EligibleCards(self._cards()), run)
        return Recommendation(job, advise(job, known, is_open=is_open), known)

    def settle(self, specs: Sequence[JobSpec], jobs: Sequence[Job]) -> list[ResolvedJob]:
        """Fill in open fields, and warn about each job that requests less memory than similar jobs used. ``jobs``: the
        jobs of the specs as they are."""
        pairs = list(zip(specs, jobs, strict=True))
        if not any(auto_fields(spec) or _names_memory(job) for spec, job in pairs):
            return [ResolvedJob(spec, job) for spec, job in pairs]
        self._catch_up()
        space, chosen = EligibleCards(self._cards()), {}
        return [self._settle(spec, job, space, chosen) for spec, job in pairs]

    def _settle(
        self, spec: JobSpec, job: Job, space: EligibleCards, chosen: dict[Any, tuple[Any, Note]]
    ) -> ResolvedJob:
        """``chosen``: results for other jobs of the submission. The jobs of a sweep are mostly alike."""
        notes: list[Note] = []
        for name in auto_fields(spec):
            alike = (name, job.tenant, job.roles, job.expected, job.profile, *(group.key for group in groups_of(job)))
            if alike not in chosen:
                chosen[alike] = _choice(name, advise(job, self._known(job, space), is_open=name == "gpus"))
            value, note = chosen[alike]
            notes.append(note)
            spec = with_choices(spec, **{name: value})
            job = to_job(spec, job.id, job.submitted_us, job.tenant, job.user)
        largest = max(space.of(job)[0], default=0)
        if _names_memory(job) and (warning := memory_warning(job, self._peak(job), largest)):
            notes.append(Note("warned", warning))
        return ResolvedJob(spec, job, tuple(notes))

    # -- evidence --------------------------------------------------------------------------------------------------

    def _known(self, job: Job, space: EligibleCards, run: Quantiles | None = None) -> AdviceInput:
        with self._lock:
            circles, peak = self._memory.circles(job), self._memory.peak(job)
        group, runs = circles[0] if circles else (None, [])
        card_bytes, max_gpus = space.of(job)
        return AdviceInput(
            group, runs, peak, self._uses_of(runs), run, card_bytes, max_gpus, self._limit_gpus(job.tenant)
        )

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
            self._memory.learn(past_run(row))
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


def cards_of(cluster: Cluster) -> list[AdviceCard]:
    return [AdviceCard(node.id, card.model, card.memory_bytes) for node in cluster.nodes for card in node.cards]


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


def _choice(name: str, advised: ResourceAdvice) -> tuple[int | str | None, Note]:
    """Value for an open field, as a job file writes it, and the reason."""
    choice = advised.gpus if name == "gpus" else advised.memory
    if choice is None:
        value, shown = (1, "1") if name == "gpus" else (None, "any card")
        return value, Note("advised", f"{name}: {shown} (no data on such jobs)", {name: value})
    value = choice.value if name == "gpus" else rounded_gib(choice.value)
    return value, Note("advised", f"{name}: {value} ({choice.why})", {name: value})
