"""Writes down, once a minute, how far running jobs meet their goals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import structlog

from gpusquad.server.answers import CardStatus
from gpusquad.server.services.cards import CardDesk
from gpusquad.server.services.goals import GoalDesk, goals
from gpusquad.store import goal_samples
from gpusquad.store.database import Database, StoreUnavailable
from gpusquad.store.goal_samples import GoalSample

EVERY_S = 60.0
_log = structlog.get_logger("gpusquad.goals")


class GoalRecord:
    """A thread that looks now and then. Nobody is asked where no running job has a goal."""

    def __init__(
        self,
        database: Database,
        divides: CardDesk,
        cards: Callable[[], Sequence[CardStatus]],
        now_us: Callable[[], int],
    ) -> None:
        self._database, self._cards, self._now_us = database, cards, now_us
        self._desk = GoalDesk(divides, now_us)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="goals", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def record(self) -> int:
        """Once; how many jobs somebody had something to say of."""
        with self._database.read() as connection:
            wanted, _ = goals(connection, self._now_us())
        if not any(goal.state == "running" for goal in wanted):
            return 0
        look = self._desk.looks(wanted, self._cards())[-1]
        rows = [GoalSample(job, look.at_us, seen.attainment, seen.weight) for job, seen in look.jobs.items()]
        if rows:
            with self._database.write() as connection:
                goal_samples.append(connection, rows)
        return len(rows)

    def _run(self) -> None:
        while not self._closing.wait(EVERY_S):
            try:
                self.record()
            except StoreUnavailable as error:
                _log.warning("goals are not written down", error=str(error))
            except Exception:
                _log.exception("one look at the goals failed")  # the next may go well
