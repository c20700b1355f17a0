"""Progress by the end of a run's output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpusquad.app.last_progress import with_last_progress
from gpusquad.core.ports import AttemptEnded
from gpusquad.engines.local.names import run_path

ENDED: dict[str, Any] = {"job_id": "01jcp6m8qwz4t7y2k90001bxdf", "attempt": 0, "cause": ""}


def put_output(home: Path, text: str) -> None:
    logs = run_path(home, ENDED["job_id"], 0) / "logs"
    logs.mkdir(parents=True)
    (logs / f"0.{0:020}.log").write_text(text)


def test_run_that_succeeded_has_its_last_step(tmp_path: Path) -> None:
    put_output(tmp_path, "".join(f"step {n}/10\n" for n in range(1, 10)) + "step 10/10")
    assert with_last_progress(tmp_path, AttemptEnded(how="succeeded", **ENDED)).steps == (10, 10)


def test_other_reports_stay_as_they_are(tmp_path: Path) -> None:
    for report in (AttemptEnded(how="succeeded", **ENDED), AttemptEnded(how="failed", **ENDED)):
        assert with_last_progress(tmp_path, report) is report
