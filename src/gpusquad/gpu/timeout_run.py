"""Runs programs that use the driver and may hang in it indefinitely."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence


def run_within(
    within_s: float, argv: Sequence[str], env: Mapping[str, str], words: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. TimeoutExpired: it was killed after that time. A program that hangs in the driver does
    not die, so its end is not awaited. OSError: it cannot be started."""
    child = subprocess.Popen(
        list(argv), env=dict(env), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        told, complaint = child.communicate(words, timeout=within_s)
    except subprocess.TimeoutExpired:
        child.kill()
        for pipe in (child.stdin, child.stdout, child.stderr):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        raise
    return subprocess.CompletedProcess(child.args, child.returncode, told, complaint)
