"""Helpers that read run folders and processes, for tests of the local engine."""

from __future__ import annotations

import json
import os
import select
from pathlib import Path

from gpusquad.engines.local import processes, status
from gpusquad.engines.local.run_folder import RunFolder
from tests.engines.harness import TIMEOUT_S

RECORD_RUN = 'echo "$GPUSQUAD_JOB $GPUSQUAD_ATTEMPT $GPUSQUAD_TASK $$" >> '
"""Shell command by which a task records that it ran: one short line, appended in one write."""


def run_folder(home: Path, job_id: str, attempt: int = 0) -> RunFolder:
    return RunFolder(str(home / "runs" / job_id / str(attempt)))


def read_status(home: Path, job_id: str, attempt: int = 0) -> dict:
    return status.read(run_folder(home, job_id, attempt)) or {}


def supervisor_pid(home: Path, job_id: str, attempt: int = 0) -> int:
    return json.loads(Path(run_folder(home, job_id, attempt).claim).read_text())["pid"]


def is_alive(pid: int) -> bool:
    found = processes.stat(pid)
    return found is not None and not found.is_over


def wait_gone(pid: int) -> None:
    """Wait until the process has ended, for processes that may still be exiting."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([pidfd], [], [], TIMEOUT_S)[0]:
            raise TimeoutError(f"process {pid} goes on")
    finally:
        os.close(pidfd)
