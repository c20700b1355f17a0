"""Tests for the process that keeps a pod running while a measurement uses it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from gpusquad.measure import pod_holder


def _process(folder: Path, number: int, *arguments: str) -> Path:
    process = folder / str(number)
    process.mkdir()
    (process / "cmdline").write_text("\0".join(arguments) + "\0")
    return process


def test_only_workers_and_the_monitor_count_as_measuring(tmp_path: Path):
    _process(tmp_path, os.getpid(), "python3", "-m", "gpusquad.measure.pod_holder")
    _process(tmp_path, 7, "nvidia-cuda-mps-control", "-d")
    (tmp_path / "8").mkdir()  # a process that has just ended
    assert not pod_holder.is_measuring(tmp_path)
    _process(tmp_path, 9, "python3", "-m", "gpusquad.measure.card.monitor", "--card", "0")
    assert pod_holder.is_measuring(tmp_path)


def test_hold_ends_after_the_idle_time(tmp_path: Path, monkeypatch):
    """The worker ends during the fourth sleep. Each sleep advances the clock by one second."""
    worker = _process(tmp_path, 9, "python3", "-m", "gpusquad.measure.worker", "cnn")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 4:
            shutil.rmtree(worker)

    monkeypatch.setattr(pod_holder.time, "sleep", sleep)
    monkeypatch.setattr(pod_holder.time, "monotonic", lambda: float(len(slept)))
    pod_holder.hold(5.0, tmp_path, 1.0)
    assert len(slept) == 3 + 5


def _run_in_own_process(program: str) -> None:
    """Runs the program in its own process, because it changes signal handlers and reaps children."""
    subprocess.run([sys.executable, "-c", dedent(program)], check=True, timeout=30)


def test_holder_ends_on_sigterm():
    _run_in_own_process("""
        import os, signal
        from gpusquad.measure import pod_holder
        pod_holder.hold = lambda idle_s: os.kill(os.getpid(), signal.SIGTERM) or signal.pause()
        pod_holder.main([])
    """)


def test_ended_children_are_reaped():
    _run_in_own_process("""
        import os, subprocess
        from gpusquad.measure import pod_holder
        child = subprocess.Popen(["true"])
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert os.path.exists(f"/proc/{child.pid}")
        pod_holder._reap()
        assert not os.path.exists(f"/proc/{child.pid}")
    """)
