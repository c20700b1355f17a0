"""Sharing parameters of jobs: passed to the engine at the start and after each change."""

from __future__ import annotations

from dataclasses import replace

import structlog

from gpusquad.core.transitions import JobState
from gpusquad.model.interference import Sharing
from gpusquad.model.job import Job
from gpusquad.model.known_rates import MAX_APPS
from gpusquad.model.sharing_params import SharingParams
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.runtime.records import cards_of, forecast_of, job_of
from gpusquad.server.services.runtime.tenants import TenantCache
from gpusquad.server.services.sharing.interference_learning import InterferenceKnowledge, InterferenceModel
from gpusquad.server.services.sharing.memory_resize import memory_of
from gpusquad.store.jobs import JobRow

_log = structlog.get_logger("gpusquad.standings")
_HAS_TASKS = frozenset({JobState.STARTING, JobState.RUNNING})


def _shares_so(job: Job, sharing: Sharing) -> bool:
    """Rates of one way of sharing do not apply to another."""
    wanted = "shared" if sharing == "mps" else "isolated"
    return all(request.share is not None and request.share.isolation == wanted for request, _ in job.groups)


class SharingUpdates:
    """Computes the parameters for every job; the engine knows which of them share a card."""

    def __init__(
        self, context: SchedulerContext, tenants: TenantCache, known: InterferenceKnowledge | None = None
    ) -> None:
        """``known``: interference between jobs. None: not used here."""
        self._context = context
        self._tenants = tenants
        self._known = known

    def of(self, row: JobRow, job: Job) -> SharingParams:
        plain = SharingParams(
            self._tenants.weight(row.tenant), job.card_level, job.slo, self._remaining_us(row),
            memory_of(job, row, self._context.fixed),
        )  # fmt: skip
        if self._known is None or self._known.is_empty or not job.app:
            return plain
        try:
            return self._with_speeds(plain, row, job, self._known.model)
        except Exception:  # no job is kept from starting for optional data
            _log.exception("rates beside neighbours unknown", job=job.id)
            return plain

    def update(self, job_id: str) -> None:
        """Send changed parameters (SLO, priority or estimate) of a running job. Does nothing if it is not running."""
        row = self._context.rows.get(job_id)
        if row is not None and JobState(row.state) in _HAS_TASKS:
            tasks = len((row.placement or {}).get("tasks", ()))
            job = self._context.jobs.get(job_id) or job_of(row)  # any thread: it may end meanwhile
            self._context.engine.change(row.id, row.attempt, tasks, self.of(row, job))

    def update_all(self) -> None:
        """After the weight of a tenant changed."""
        for job_id in list(self._context.rows):
            self.update(job_id)

    def _with_speeds(self, plain: SharingParams, row: JobRow, job: Job, model: InterferenceModel) -> SharingParams:
        gpu = self._context.gpu_of(row)
        if not gpu or not _shares_so(job, model.sharing):
            return plain
        neighbours = self._neighbours(row, model.sharing)[:MAX_APPS]
        costs = {
            neighbour.app: speed for neighbour in neighbours for speed in model.beside(neighbour, [job], gpu).values()
        }
        return replace(
            plain, app=job.app, curve=model.curve(job, gpu), solo_per_s=model.solo_per_s(job, gpu),
            rate_beside=model.beside(job, neighbours, gpu), neighbour_rates=costs,
        )  # fmt: skip

    def _neighbours(self, row: JobRow, sharing: Sharing) -> list[Job]:
        """One job of each app that shares a card with it in this way. Tasks of a gang may share a card with each
        other."""
        space = self._context.state.space
        found: dict[str, Job] = {}
        for card in cards_of(row):
            on_card = list(space.sharers.get(space.fixed.card_index.get(card, -1), ()))
            own = next((at for at, job in enumerate(on_card) if job.id == row.id), None)
            if own is not None:
                del on_card[own]
            found |= {job.app: job for job in on_card if _shares_so(job, sharing)}
        return list(found.values())

    def _remaining_us(self, row: JobRow) -> int | None:
        """By the prediction of the attempt. None: there is none."""
        if not row.forecast:
            return None
        started_us = row.started_us
        ran_us = 0 if started_us is None else max(0, self._context.clock.now_us() - started_us)
        return max(0, forecast_of(row).mid_us - ran_us)
