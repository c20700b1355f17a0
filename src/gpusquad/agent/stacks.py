"""Stacks of Python processes by py-spy, which reads their memory without stopping them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MAX_PROCESSES = 4
MAX_LINES = 60
_LINE_LENGTH = 160
_TIMEOUT_S = 10.0


def read_stacks(pids: Sequence[int]) -> tuple[str, ...]:
    """Lines of text. Empty: not Python, not allowed, or py-spy is missing."""
    program = _program()
    if program is None:
        return ()
    lines = [line for pid in sorted(pids)[:MAX_PROCESSES] for line in _dump(program, pid)]
    return tuple(line[:_LINE_LENGTH] for line in lines[:MAX_LINES])


def _dump(program: str, pid: int) -> list[str]:
    command = [program, "dump", "--nonblocking", "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode:
        return []
    text = done.stdout.decode("utf-8", "replace")
    # Before the first thread comes the command line, which may contain secrets.
    _, found, rest = text.partition("\nThread ")
    threads = [line.rstrip() for line in (found + rest).splitlines() if line.strip()]
    return [f"Process {pid}", *threads]


def _program() -> str | None:
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")
