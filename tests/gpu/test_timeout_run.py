"""Programs that are run with a timeout."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gpusquad.gpu.timeout_run import run_within

FOREVER = (sys.executable, "-c", "import time; time.sleep(600)")


def test_run_within_returns_output_and_exit_code() -> None:
    done = run_within(30, ["sh", "-c", 'cat; echo "$WHO" >&2; exit 3'], {**os.environ, "WHO": "me"}, "hello")
    assert (done.returncode, done.stdout, done.stderr) == (3, "hello", "me\n")


def test_program_that_survives_a_kill_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that hangs in the driver behaves like this. Waiting for its end would take ten minutes."""
    left: list[subprocess.Popen[str]] = []
    with monkeypatch.context() as patched:
        patched.setattr(subprocess.Popen, "kill", lambda child: left.append(child))
        with pytest.raises(subprocess.TimeoutExpired):
            run_within(0.2, FOREVER, os.environ)
    (child,) = left
    assert child.poll() is None
    assert all(pipe is not None and pipe.closed for pipe in (child.stdin, child.stdout, child.stderr))
    child.kill()
    child.wait(30)


def test_program_past_its_timeout_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[subprocess.Popen[str]] = []
    kill = subprocess.Popen.kill
    monkeypatch.setattr(subprocess.Popen, "kill", lambda child: (killed.append(child), kill(child)))
    with pytest.raises(subprocess.TimeoutExpired):
        run_within(0.2, FOREVER, os.environ)
    (child,) = killed
    assert child.wait(30) != 0


def test_missing_program_raises_file_not_found() -> None:
    with pytest.raises(FileNotFoundError):
        run_within(1, ["/no/such/program"], {})
