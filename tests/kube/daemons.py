"""Programs in the background whose output is kept, and that never outlive the tests."""

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
# Below the ports that the kernel gives to outgoing connections (32768 and up), so that none of those takes one away
# between our look and the start of its owner.
PORTS = range(20_000, 32_000)
_given: set[int] = set()  # not twice to one plane, whose programs start one after another


class NotReady(Exception):
    """A program ended, or did not come up in time; its last words are in the message."""


class Daemon:
    """One program, which may be stopped and started again. Its log is a file in the folder of the whole plane."""

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
        assert self._process is None, f"{self.name} runs already"
        libc = ctypes.CDLL(None)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, env=self._env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
                preexec_fn=lambda: libc.prctl(1, signal.SIGKILL),  # PR_SET_PDEATHSIG: killed tests leave nothing behind
            )  # fmt: skip

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """As if it had crashed, or asked politely; whoever does not listen is made to. Twice does no harm."""
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
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    @property
    def resident_bytes(self) -> int:
        """Its memory."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def wait_for(self, what: str, is_so: Callable[[], bool], timeout_s: float) -> None:
        """Asks again and again; gives up early if the program has ended."""
        deadline = time.monotonic() + timeout_s
        while not is_so():
            if self._process is not None and (code := self._process.poll()) is not None:
                raise NotReady(f"{self.name} ended with {code} before {what}:\n{self.last_words()}")
            if time.monotonic() > deadline:
                raise NotReady(f"{self.name}: not {what} after {timeout_s:g} s:\n{self.last_words()}")
            time.sleep(POLL_S)

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        shown = [line[:SHOWN_CHARACTERS] for line in lines[-SHOWN_LINES:]]
        return "\n".join([*shown, f"(all of it: {self.log})"])


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _given:
            _given.add(port)
            return port


def is_ok(url: str) -> bool:
    """Whether somebody answers there, and is well."""
    try:
        return httpx.get(url, timeout=2, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def answers(path: Path) -> bool:
    """Whether somebody listens on this Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
