"""Tests of the checkpoint example, which is preempted and resumes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gpusquad.engines.local.logs import AttemptLogReader
from tests.engines.harness import Bench, eventually


def log_text(home: Path, attempt: int) -> str:
    return AttemptLogReader(home / "runs" / "job" / str(attempt)).read(0, 0, 10_000).data.decode()


def test_example_resumes_from_its_checkpoint_after_preemption(bench: Bench, home: Path, repository: Path) -> None:
    command = [sys.executable, str(repository / "examples/checkpoint.py"), "40", "0.05"]
    env = {"PYTHONPATH": str(repository / "src")}
    bench.launch("job", command, grace_s=60.0, env=env)
    eventually((home / "runs/job/0/progress/0").exists)
    bench.engine.stop("job", 0, "preempted", 60.0)
    assert bench.reports.ended("job").how == "stopped"
    done = int((home / "checkpoints/job/steps").read_text())
    assert 0 < done < 40
    assert log_text(home, 0).splitlines() == ["begins at step 0", f"ends at step {done} of 40"]

    bench.launch("job", command, attempt=1, env=env)
    assert bench.reports.ended("job", 1).how == "succeeded"
    assert log_text(home, 1).splitlines() == [f"begins at step {done}", "ends at step 40 of 40"]
    assert (home / "checkpoints/job/steps").read_text() == "40"


def test_example_runs_without_gpusquad(tmp_path: Path, repository: Path) -> None:
    command = [sys.executable, "-I", "-S", str(repository / "examples/checkpoint.py"), "3", "0"]
    output = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[-1] == "ends at step 3 of 3"
