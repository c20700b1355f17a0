"""Stores the SLO attainment of running jobs once a minute."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpusquad.server.answers import CardStatus
from gpusquad.server.periodic import PeriodicTask
from gpusquad.server.services.sharing.cards import CardService
from gpusquad.server.services.sharing.slo import SloService, goals
from gpusquad.store import goal_samples
from gpusquad.store.database import Database
from gpusquad.store.goal_samples import GoalSample

INTERVAL_S = 60.0


class GoalRecord(PeriodicTask):
    """Daemons are asked only if a running job has an SLO."""

    def __init__(
        self,
        database: Database,
        divides: CardService,
        cards: Callable[[], Sequence[CardStatus]],
        now_us: Callable[[], int],
    ) -> None:
        super().__init__("goals", INTERVAL_S, self.record, "SLO attainment not stored")
        self._database, self._cards, self._now_us = database, cards, now_us
        self._service = SloService(divides, now_us)

    def record(self) -> int:
        """Record once. Returns the number of jobs with a report."""
        with self._database.read() as connection:
            wanted, _ = goals(connection, self._now_us())
        if not any(goal.state == "running" for goal in wanted):
            return 0
        snapshot = self._service.snapshots(wanted, self._cards())[-1]
        rows = [GoalSample(job, snapshot.at_us, seen.attainment, seen.weight) for job, seen in snapshot.jobs.items()]
        if rows:
            with self._database.write() as connection:
                goal_samples.append(connection, rows)
        return len(rows)
