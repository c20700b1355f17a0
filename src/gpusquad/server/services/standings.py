"""What a job is worth beside others on a card that they share: told when it starts, and whenever that changes."""

from __future__ import annotations

from gpusquad.core.transitions import JobState
from gpusquad.model.job import Job
from gpusquad.model.standing import Standing
from gpusquad.server.services.desk import Desk
from gpusquad.server.services.people import People
from gpusquad.server.services.records import forecast_of, job_of
from gpusquad.store.jobs import JobRow

_HAS_TASKS = frozenset({JobState.STARTING, JobState.RUNNING})


class Standings:
    """Who shares a card with others is the engine's to know: it hears of everybody."""

    def __init__(self, desk: Desk, people: People) -> None:
        self._desk = desk
        self._people = people

    def of(self, row: JobRow, job: Job) -> Standing:
        return Standing(self._people.weight(row.tenant), job.priority_level, job.slo, self._remaining_us(row))

    def tell(self, job_id: str) -> None:
        """Its goal, priority or estimate may be another now. Nothing happens if it does not run."""
        row = self._desk.rows.get(job_id)
        if row is not None and JobState(row.state) in _HAS_TASKS:
            tasks = len((row.placement or {}).get("tasks", ()))
            job = self._desk.jobs.get(job_id) or job_of(row)  # by any thread: it may end meanwhile
            self._desk.engine.change(row.id, row.attempt, tasks, self.of(row, job))

    def tell_all(self) -> None:
        """The weight of a tenant is another now."""
        for job_id in list(self._desk.rows):
            self.tell(job_id)

    def _remaining_us(self, row: JobRow) -> int | None:
        """By what was foretold of the attempt. None: nothing was."""
        if not row.forecast:
            return None
        started_us = row.started_us
        ran_us = 0 if started_us is None else max(0, self._desk.clock.now_us() - started_us)
        return max(0, forecast_of(row).mid_us - ran_us)
