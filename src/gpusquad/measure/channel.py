"""The requesting side of a process that answers line by line. Every wait has a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_CHUNK_BYTES = 65536
_END_TIMEOUT_S = 10.0
_OF_KUBECTL = "command terminated with exit code"
"""Text that kubectl exec adds after the last output of its program."""


class WorkerGone(RuntimeError):
    """The worker ended, or did not answer in time."""


class Channel:
    """One process and its open requests."""

    def __init__(self, label: str, process: subprocess.Popen[bytes], log: Path | None = None) -> None:
        self.label = label
        self._process = process
        self._log = log
        self._unread = b""

    def send(self, do: str, **request: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **request}).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):  # one end of the pipe is closed
            raise WorkerGone(f"{self.label} ended{self._last_output()}") from None

    def answer(self, until_s: float) -> dict[str, Any]:
        """The next answer, until a time of the monotonic clock. Raises WorkerGone if there is none, or if it is not
        JSON.
        """
        while b"\n" not in self._unread:
            self._unread += self._more(until_s)
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            return json.loads(line)
        except ValueError:
            raise WorkerGone(f"{self.label} sent an invalid answer: {line[:200]!r}") from None

    def ask(self, do: str, timeout_s: float, **request: Any) -> dict[str, Any]:
        self.send(do, **request)
        return self.answer(time.monotonic() + timeout_s)

    def close(self, *, gracefully: bool = True) -> None:
        """Ask the process to quit and wait briefly, then kill it."""
        if gracefully:
            close_all([self])
            return
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was not written is lost
                    continue

    def wait(self, until_s: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, until_s - time.monotonic()))

    def _more(self, until_s: float) -> bytes:
        assert self._process.stdout is not None
        number = self._process.stdout.fileno()
        poller = select.poll()
        poller.register(number, select.POLLIN | select.POLLHUP)
        if not poller.poll(max(0.0, until_s - time.monotonic()) * 1000):
            raise WorkerGone(f"{self.label} did not answer in time{self._last_output()}")
        data = os.read(number, _CHUNK_BYTES)
        if not data:
            raise WorkerGone(f"{self.label} ended{self._last_output()}")
        return data

    def _last_output(self) -> str:
        if self._log is None or not self._log.exists():
            return ""
        said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        lines = [line for line in said if not line.startswith(_OF_KUBECTL)] or said
        return f": {lines[-1][-300:]}" if lines else ""


def close_all(channels: Sequence[Channel]) -> None:
    """Ask all processes to quit, then wait for all. A process that uses a card takes half a second or more to end."""
    for channel in channels:
        _sent(channel, "quit", {})
    until_s = time.monotonic() + _END_TIMEOUT_S
    for channel in channels:
        channel.wait(until_s)
        channel.close(gracefully=False)


def ask_all(
    channels: Sequence[Channel], do: str, timeout_s: float, **request: Any
) -> list[dict[str, Any] | WorkerGone]:
    """Send a request to all at once. Returns the answer of each, or WorkerGone."""
    until_s = time.monotonic() + timeout_s
    sent = [_sent(channel, do, request) for channel in channels]
    return [_answer(channel, until_s) if lost is None else lost for channel, lost in zip(channels, sent, strict=True)]


def _sent(channel: Channel, do: str, request: dict[str, Any]) -> WorkerGone | None:
    try:
        channel.send(do, **request)
    except WorkerGone as lost:
        return lost


def _answer(channel: Channel, until_s: float) -> dict[str, Any] | WorkerGone:
    try:
        return channel.answer(until_s)
    except WorkerGone as lost:
        return lost
