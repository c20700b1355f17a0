"""Outcomes of attempts, as in the status file and `core.ports.AttemptEnded`."""

from __future__ import annotations

import signal
import time

_MIB = 2**20


def end(how: str, cause: str, first: dict | None = None, never_started: bool = False) -> dict:
    at_us = time.time_ns() // 1000
    return {"how": how, "cause": cause, "first": first, "never_started": never_started, "at_us": at_us}


def task_end(
    task: int, cause: str, exit_code: int | None = None, number: int | None = None, out_of_memory: bool = False
) -> dict:
    """``number``: the signal that ended it."""
    return {"task": task, "exit_code": exit_code, "signal": number, "out_of_memory": out_of_memory, "cause": cause}


def failed(task: int, label: str, code: int, out_of_memory: bool, memory_bytes: int) -> dict:
    """A task failed. ``code``: negative for signals, as in Python."""
    exit_code, number = (code, None) if code >= 0 else (None, -code)
    what = f"ended with exit code {code}" if number is None else f"was killed by {_signal_name(number)}"
    if out_of_memory:
        what = f"ran out of memory{_limit(memory_bytes)} and {what}"
    cause = f"task {task} ({label}) {what}"
    return end("failed", cause, task_end(task, cause, exit_code, number, out_of_memory))


def cannot_start(task: int, label: str, why: str, never_started: bool) -> dict:
    cause = f"task {task} ({label}) cannot start: {why}"
    return end("failed", cause, task_end(task, cause), never_started)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _limit(memory_bytes: int) -> str:
    return f" (limit {memory_bytes / _MIB:.0f} MiB)" if memory_bytes else ""
