"""A pod is held while somebody measures in it, and no longer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from gpusquad.measure import pod_holder


def _process(folder: Path, number: int, *words: str) -> Path:
    made = folder / str(number)
    made.mkdir()
    (made / "cmdline").write_text("\0".join(words) + "\0")
    return made


def test_workers_and_the_steward_count_and_others_do_not(tmp_path: Path):
    _process(tmp_path, os.getpid(), "python3", "-m", "gpusquad.measure.pod_holder")
    _process(tmp_path, 7, "nvidia-cuda-mps-control", "-d")
    (tmp_path / "8").mkdir()  # it has just ended
    assert not pod_holder.is_measuring(tmp_path)
    _process(tmp_path, 9, "python3", "-m", "gpusquad.measure.card.monitor", "--card", "0")
    assert pod_holder.is_measuring(tmp_path)


def test_it_ends_once_nobody_measures(tmp_path: Path, monkeypatch):
    """A worker is there for three looks; the clock goes on by a second with each."""
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


def _outside(program: str) -> None:
    """In a process of its own: signals and children of this one are the tests'."""
    subprocess.run([sys.executable, "-c", dedent(program)], check=True, timeout=30)


def test_it_ends_when_told_to():
    _outside("""
        import os, signal
        from gpusquad.measure import pod_holder
        pod_holder.hold = lambda idle_s: os.kill(os.getpid(), signal.SIGTERM) or signal.pause()
        pod_holder.main([])
    """)


def test_children_that_ended_are_noted():
    _outside("""
        import os, subprocess
        from gpusquad.measure import pod_holder
        child = subprocess.Popen(["true"])
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert os.path.exists(f"/proc/{child.pid}")
        pod_holder._reap()
        assert not os.path.exists(f"/proc/{child.pid}")
    """)
