"""How far a run came by the end of its output. The agent reads at intervals and may miss the last lines."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog

from gpusquad.agent.run_files import RunFiles
from gpusquad.core.ports import AttemptEnded
from gpusquad.engines.local.names import run_path

_log = structlog.get_logger("gpusquad.progress")


def with_last_progress(home: Path, report: Any) -> Any:
    """The report of the engine; that of a run that succeeded with its last progress."""
    if not isinstance(report, AttemptEnded) or report.how != "succeeded":
        return report
    now_us = time.time_ns() // 1000
    try:
        files = RunFiles(run_path(home, report.job_id, report.attempt))
        files.look(now_us)
        reading = files.look(now_us)  # by the second time, a last line without an end is complete
    except Exception:  # the end of a job must be reported in any case
        _log.exception("progress at the end not read", job=report.job_id)
        return report
    return report if reading.step is None else replace(report, steps=(reading.step, reading.total))
