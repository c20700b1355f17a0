"""Deletes old samples, and events and run folders of jobs that ended long ago."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from gpusquad.app.config import StoreConfig
from gpusquad.model.units import US_PER_S
from gpusquad.server.periodic import PeriodicTask
from gpusquad.store import jobs, trim
from gpusquad.store.database import Database

INTERVAL_S = 600.0
_DAY_US = 86_400 * US_PER_S


class RetentionTask(PeriodicTask):
    """Deletes old data every ``INTERVAL_S`` seconds."""

    def __init__(self, database: Database, home: Path, config: StoreConfig, now_us: Callable[[], int]) -> None:
        super().__init__("housekeeping", INTERVAL_S, self.tidy, "cannot delete old data")
        self._database = database
        self._runs = home / "runs"
        self._keep_us = int(config.keep_days * _DAY_US)
        self._now_us = now_us

    def tidy(self) -> None:
        """Delete old data once."""
        now_us = self._now_us()
        with self._database.write() as connection:
            trim.trim(connection, now_us - self._keep_us, now_us - self._keep_us // 10)
        if not self._runs.is_dir():
            return
        for folder in self._runs.iterdir():
            if self._is_old(folder.name, now_us):
                shutil.rmtree(folder, ignore_errors=True)

    def _is_old(self, job_id: str, now_us: int) -> bool:
        with self._database.read() as connection:
            row = jobs.get(connection, job_id)
        return row is not None and row.ended_us is not None and row.ended_us < now_us - self._keep_us
