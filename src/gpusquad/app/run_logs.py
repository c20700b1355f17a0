"""Logs of runs on this machine, for the API."""

from __future__ import annotations

from pathlib import Path

from gpusquad.engines.local.logs import AttemptLogReader
from gpusquad.engines.local.names import run_path


class RunLogs:
    """Reads logs from run folders."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def reader(self, job_id: str, attempt: int) -> AttemptLogReader | None:
        return None if self.folder(job_id, attempt) is None else AttemptLogReader(run_path(self._home, job_id, attempt))

    def folder(self, job_id: str, attempt: int) -> Path | None:
        logs = run_path(self._home, job_id, attempt) / "logs"
        return logs if logs.is_dir() else None
