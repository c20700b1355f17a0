"""Background programs with log files. They never outlive the tests."""

from __future__ import annotations

import ctypes
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx

STOP_S = 10.0
POLL_S = 0.05
SHOWN_LINES = 20
SHOWN_CHARACTERS = 400
# Below the ephemeral ports (32768 and up), so that no outgoing connection takes a port between the check and the start
# of the program that uses it.
PORTS = range(20_000, 32_000)
_used_ports: set[int] = set()  # the programs of a plane start one after another, so a free port could be returned twice


class NotReady(Exception):
    """A program ended or was not ready in time; the message has the end of its log."""


class Daemon:
    """A program that can be stopped and started again. Its log is in the folder of the control plane."""

    def __init__(
        self, name: str, command: Sequence[str | Path], folder: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = [str(part) for part in command]
        self._folder = folder
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert self._process is None, f"{self.name} is already running"
        libc = ctypes.CDLL(None)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, env=self._env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
                preexec_fn=lambda: libc.prctl(1, signal.SIGKILL),  # PR_SET_PDEATHSIG: killed tests leave nothing behind
            )  # fmt: skip

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Stop the program with a signal, and with SIGKILL after STOP_S. Does nothing if it is stopped."""
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} is not running"
        return self._process.pid

    @property
    def resident_bytes(self) -> int:
        """Resident memory of the process."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def wait_for(self, what: str, condition: Callable[[], bool], timeout_s: float) -> None:
        """Poll until the condition holds. Fail early if the program has ended."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self._process is not None and (code := self._process.poll()) is not None:
                raise NotReady(f"{self.name} ended with {code} before {what}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise NotReady(f"{self.name}: not {what} after {timeout_s:g} s:\n{self.log_tail()}")
            time.sleep(POLL_S)

    def log_tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        shown = [line[:SHOWN_CHARACTERS] for line in lines[-SHOWN_LINES:]]
        return "\n".join([*shown, f"(full log: {self.log})"])


def free_port() -> int:
    """Return a free port of the loopback interface."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _used_ports:
            _used_ports.add(port)
            return port


def is_ok(url: str) -> bool:
    """Return whether the URL answers with status 200."""
    try:
        return httpx.get(url, timeout=2, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def is_listening(path: Path) -> bool:
    """Return whether a program listens on this Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
