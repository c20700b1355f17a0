"""Programs that do not end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gpusquad.gpu.timeout_run import run_within

FOREVER = (sys.executable, "-c", "import time; time.sleep(600)")


def test_what_it_said_and_how_it_ended() -> None:
    done = run_within(30, ["sh", "-c", 'cat; echo "$WHO" >&2; exit 3'], {**os.environ, "WHO": "me"}, "hello")
    assert (done.returncode, done.stdout, done.stderr) == (3, "hello", "me\n")


def test_one_that_even_a_kill_does_not_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that hangs in the driver. If its end were waited for, this would take ten minutes."""
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


def test_one_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[subprocess.Popen[str]] = []
    kill = subprocess.Popen.kill
    monkeypatch.setattr(subprocess.Popen, "kill", lambda child: (killed.append(child), kill(child)))
    with pytest.raises(subprocess.TimeoutExpired):
        run_within(0.2, FOREVER, os.environ)
    (child,) = killed
    assert child.wait(30) != 0


def test_one_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        run_within(1, ["/no/such/program"], {})
