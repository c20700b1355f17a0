"""Learns interference between jobs on one card from their step rates.

A run that reports steps is timed while its neighbours stay the same. Once its rate alone is known, from itself or from
a similar run, each interval beside others gives its rate there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from gpusquad.core.transitions import JobState
from gpusquad.model.interference import Rate, Sharing
from gpusquad.model.job import Job
from gpusquad.model.units import US_PER_S
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.runtime.records import cards_of
from gpusquad.store.jobs import JobRow

_log = structlog.get_logger("gpusquad.neighbours")
SETTLE_US = 10 * US_PER_S
"""Time to skip after a neighbour came or left: caches fill, queues drain."""
STRETCH_US = 60 * US_PER_S
"""Longest interval. Then it is recorded and the next one starts."""
MIN_STEPS = 10
"""Fewer steps are too inexact: a step can be long, and its end is seen late."""
MAX_SIMILAR_RUNS = 4096
"""Kinds of run whose rate alone is kept."""

Alike = tuple[str, str, str, str, str]
"""Tenant, user, application, command and card model: runs that agree in these count the same steps."""


REFRESH_US = 60 * US_PER_S
"""Interval at which new tables are looked for."""
SAVE_US = 600 * US_PER_S


class InterferenceModel(Rate, Protocol):
    """Rates of jobs beside each other, and how they are learned."""

    sharing: Sharing
    """Way of sharing cards that it applies to."""

    def learn(self, own: Job, others: Sequence[Job], gpu: str, ratio: float, seconds: float) -> None:
        """Learn the rate beside these jobs, observed for this long."""
        ...

    def curve(self, own: Job, gpu: str = "") -> tuple[tuple[int, float], ...]:
        """Speed alone by fraction of the SMs. Empty: not measured."""
        ...

    def solo_per_s(self, own: Job, gpu: str = "") -> float:
        """Steps per second alone on the whole card. 0: not measured."""
        ...

    def beside(self, own: Job, others: Iterable[Job], gpu: str = "") -> dict[str, float]:
        """Speed beside each of these apps as the only neighbour, where known."""
        ...

    def dump(self) -> dict[str, Any]: ...


class InterferenceKnowledge(Protocol):
    """Interference model and where it is stored."""

    @property
    def model(self) -> InterferenceModel: ...

    @property
    def is_empty(self) -> bool:
        """Nothing was measured or learned, so no rates are reported."""
        ...

    def refresh(self) -> bool:
        """Whether there is a new model because of new measurements."""
        ...

    def save(self, learned: dict[str, Any]) -> None: ...


@dataclass(slots=True)
class _Stretch:
    """Start of the current interval with unchanged neighbours, and the step at that time."""

    company: tuple[str, ...]
    from_us: int
    at_us: int | None = None
    step: int = 0
    attempt: int = 0


class InterferenceLearner:
    """Called by the agent's reader thread. Results are learned inside a pass."""

    def __init__(self, context: SchedulerContext, known: InterferenceKnowledge | None) -> None:
        self._context = context
        self._known = known
        self._refreshed_us = self._saved_us = 0
        self._observations = 0
        self._to_save: dict[str, Any] | None = None
        self._stretches: dict[str, _Stretch] = {}
        self._alone: OrderedDict[Alike, float] = OrderedDict()
        """Steps per second."""
        self._neighbour_keys: dict[str, tuple[str, ...]] = {}

    @property
    def rate(self) -> Rate | None:
        """For the core."""
        return None if self._known is None or self._known.is_empty else self._known.model

    @property
    def model(self) -> InterferenceModel | None:
        """All that is known. None: not used here."""
        return None if self._known is None else self._known.model

    def alone_rate(self, row: JobRow) -> float | None:
        """Steps per second of such runs alone on such a card. None: never seen. KeyError: the job has ended."""
        if row.id not in self._context.rows:
            raise KeyError(row.id)
        return self._alone.get(_alike(self._context.job(row.id), self._context.gpu_of(row)))

    def neighbours_since(self, row: JobRow) -> tuple[int, int] | None:
        """Time and step at which timing with the current neighbours started. None: not yet."""
        stretch = self._stretches.get(row.id)
        if stretch is None or stretch.at_us is None or stretch.attempt != row.attempt:
            return None
        return stretch.at_us, stretch.step

    def observe(self, at_us: int) -> None:
        """Which runs share cards now. Once for all runs of a sample."""
        if self._known is None:
            return
        self._neighbour_keys = neighbour_key(list(self._context.rows.values()))
        for job_id in [job_id for job_id in self._stretches if job_id not in self._neighbour_keys]:
            del self._stretches[job_id]
        if at_us - self._refreshed_us >= REFRESH_US:
            self._refreshed_us = at_us
            if self._known.refresh():
                self._context.loop.post(self._use)
        if at_us - self._saved_us >= SAVE_US:
            self._saved_us = at_us
            self._write()
            if self._observations:
                self._context.loop.post(self._save_later)

    def close(self) -> None:
        """After the last decision."""
        if self._observations:
            self._save_later()
        self._write()

    def see(self, row: JobRow, run: Mapping[str, Any], at_us: int) -> None:
        """Add one sample of a run that reports steps."""
        step, seen_us = run.get("step"), run.get("progress_at_us")
        if self._known is None or step is None or row.id not in self._neighbour_keys:
            return
        seen_us = at_us if seen_us is None else int(seen_us)
        stretch = self._stretch(row, at_us)
        if seen_us - stretch.from_us < SETTLE_US:
            return
        if stretch.at_us is None or step < stretch.step:
            stretch.at_us, stretch.step = seen_us, int(step)
        elif seen_us - stretch.at_us >= STRETCH_US and step - stretch.step >= MIN_STEPS:
            passed_s = (seen_us - stretch.at_us) / US_PER_S
            self._timed(row, stretch.company, (step - stretch.step) / passed_s, passed_s)
            stretch.at_us, stretch.step = seen_us, int(step)

    def _stretch(self, row: JobRow, at_us: int) -> _Stretch:
        stretch, company = self._stretches.get(row.id), self._neighbour_keys[row.id]
        if stretch is None or (stretch.company, stretch.attempt) != (company, row.attempt):
            stretch = self._stretches[row.id] = _Stretch(company, at_us, attempt=row.attempt)
        return stretch

    def _timed(self, row: JobRow, company: tuple[str, ...], steps_per_s: float, passed_s: float) -> None:
        job, gpu = self._context.job(row.id), self._context.gpu_of(row)
        alike = _alike(job, gpu)
        if not company:
            self._remember(alike, steps_per_s)
        elif (alone := self._alone.get(alike)) is not None and all(other in self._context.rows for other in company):
            others = [self._context.job(other) for other in company]
            self._context.loop.post(self._observation(job, others, gpu, steps_per_s / alone, passed_s))

    def _observation(self, job: Job, others: list[Job], gpu: str, ratio: float, passed_s: float) -> Callable[[], None]:
        def learn() -> None:
            assert self._known is not None
            try:
                self._known.model.learn(job, others, gpu, ratio, passed_s)
            except Exception:
                _log.exception("rate beside neighbours not learned", job=job.id)
            self._observations += 1
            self._use()

        return learn

    # The methods up to the next such line run inside a pass.

    def _use(self) -> None:
        self._context.state.rate = self.rate

    def _save_later(self) -> None:
        assert self._known is not None
        self._to_save, self._observations = self._known.model.dump(), 0

    # ------------------------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Store what was queued during a pass; writing a file takes too long for a pass."""
        learned, self._to_save = self._to_save, None
        if learned is not None and self._known is not None:
            self._known.save(learned)

    def _remember(self, alike: Alike, steps_per_s: float) -> None:
        """The fastest recent rate: a rate alone can be lowered by many things, and raised by none."""
        before = self._alone.pop(alike, steps_per_s)
        self._alone[alike] = max(steps_per_s, 0.9 * before + 0.1 * steps_per_s)
        if len(self._alone) > MAX_SIMILAR_RUNS:
            self._alone.popitem(last=False)


def _alike(job: Job, gpu: str) -> Alike:
    return job.tenant, job.user, job.app, job.command, gpu


def neighbour_key(rows: Sequence[JobRow]) -> dict[str, tuple[str, ...]]:
    """Every run on one card with its neighbours. On several cards it is unknown which one slows the run."""
    on_card: dict[str, set[str]] = {}
    cards: dict[str, set[str]] = {}
    for row in rows:
        if row.state in (JobState.STARTING, JobState.RUNNING, JobState.STOPPING) and row.placement:
            cards[row.id] = set(cards_of(row))
            for card in cards[row.id]:
                on_card.setdefault(card, set()).add(row.id)
    return {
        job_id: tuple(sorted(set().union(*(on_card[card] for card in mine)) - {job_id}))
        for job_id, mine in cards.items()
        if len(mine) == 1
    }
