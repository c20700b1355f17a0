"""MPS for one card, with our own daemon.

``Mps`` is temporary: started, used, stopped and removed. ``MpsDaemon`` controls one that lives longer and is found
again. Both have their own pipe and log folders, so a daemon of the machine is neither used nor disturbed. The card's
compute mode does not change.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

from gpusquad.gpu.timeout_run import run_within
from gpusquad.model.errors import Invalid, NotReady
from gpusquad.model.units import WHOLE_MILLI

PROGRAM = "nvidia-cuda-mps-control"
_PIPES, _LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
_SHARE, _CARDS = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_VISIBLE_DEVICES"
_NOWHERE = "/proc/no-daemon-here"  # a folder that cannot be created, even by root
_WITHIN_S = 20.0
_ENDS_WITHIN_S = 5.0


class ProgramRunner(Protocol):
    """Runs a program to its end where the card is: here, or in a pod."""

    def __call__(self, argv: Sequence[str], env: Mapping[str, str], words: str = "") -> str: ...


def run_here(argv: Sequence[str], env: Mapping[str, str], words: str = "") -> str:
    """Output of the program. NotReady: it is missing, fails, or does not end."""
    try:
        done = run_within(_WITHIN_S, argv, {**os.environ, **env}, words)
    except FileNotFoundError:
        raise NotReady("sharing", f"{argv[0]} is not installed", "it comes with NVIDIA's driver") from None
    except subprocess.TimeoutExpired:
        raise NotReady("sharing", f"{argv[0]} did not answer within {_WITHIN_S:g} s") from None
    if done.returncode != 0:
        raise NotReady("sharing", f"{argv[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


NO_DAEMON: Mapping[str, str] = {_PIPES: _NOWHERE}
"""Environment for time-slicing: a pipe folder without any daemon."""


def no_daemon_env(card: str) -> dict[str, str]:
    """Environment to use the card time-sliced."""
    return {_CARDS: card, **NO_DAEMON}


class MpsDaemon:
    """The MPS daemon of a folder."""

    def __init__(self, card: str, folder: Path, run: ProgramRunner = run_here) -> None:
        self._card, self._run = card, run
        self.folder = folder
        self._env = {_PIPES: str(folder / "pipe"), _LOGS: str(folder / "log")}

    @property
    def pipes(self) -> Path:
        """MPS clients need it, in containers at the same path."""
        return self.folder / "pipe"

    def start(self) -> None:
        self._run(["mkdir", "-p", *self._env.values()], {})
        self._run([PROGRAM, "-d"], {**self._env, _CARDS: self._card})

    def ask(self, words: str) -> str:
        """Send a command. Invalid: the daemon does not run."""
        return self._run([PROGRAM], self._env, words + "\n")

    def quit(self) -> None:
        """Stop the daemon; remaining clients lose their work. Invalid: it does not run."""
        pid = self.pid()
        try:
            self.ask(f"quit -t {_ENDS_WITHIN_S:g}")
        except Invalid:
            if pid is None:
                raise
        finally:
            _end(pid)

    def env(self, sm_milli: int = WHOLE_MILLI) -> dict[str, str]:
        """Environment of an MPS client. The daemon numbers its cards from 0; UUIDs do not change."""
        card = self._card if self._card.startswith("GPU-") else "0"
        share = {} if sm_milli == WHOLE_MILLI else {_SHARE: f"{sm_milli / 10:g}"}
        return {**self._env, _CARDS: card, **share}

    def pid(self) -> int | None:
        """Pid of the daemon, if it runs on this machine."""
        try:
            return int((self.pipes / f"{PROGRAM}.pid").read_text())
        except (OSError, ValueError):
            return None

    def servers(self) -> list[int]:
        """Pids of the servers, at most one per user. Empty before the first client."""
        return _numbers(self.ask("get_server_list"))

    def is_faulty(self) -> bool:
        """A client had a fatal fault: no client can continue, and none can join."""
        return any("FAULT" in self.ask(f"get_server_status {pid}").upper() for pid in self.servers())

    def terminate(self, pids: Iterable[int]) -> list[int]:
        """Terminate MPS clients cleanly before they are killed. Returns those that were clients."""
        wanted, done = set(pids), []
        for server in self.servers():
            for client in wanted & set(_numbers(self.ask(f"get_client_list {server}"))):
                self.ask(f"terminate_client {server} {client}")
                done.append(client)
        return sorted(done)


class Mps:
    """``with Mps("0") as mps: Popen(…, env=mps.env(500))``: half of the SMs of the first card."""

    def __init__(self, card: str, run: ProgramRunner = run_here, folder: str | None = None) -> None:
        self._own_folder = folder is None
        self._folder = Path(folder if folder is not None else tempfile.mkdtemp(prefix="gpusquad-mps-"))
        self._daemon = MpsDaemon(card, self._folder, run)

    def __enter__(self) -> Mps:
        try:
            self._daemon.start()
        except BaseException:
            self._clean()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._daemon.quit()
        except Invalid:
            if error is None:
                raise
        finally:
            self._clean()

    def env(self, sm_milli: int = WHOLE_MILLI) -> dict[str, str]:
        """For a client; see ``MpsDaemon``."""
        return self._daemon.env(sm_milli)

    def _clean(self) -> None:
        if self._own_folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split() if word.isdigit()]


def _end(pid: int | None) -> None:
    """Wait for the end of a daemon, and kill it after the time limit."""
    if pid is None:
        return
    until_s = time.monotonic() + _ENDS_WITHIN_S
    while _is_daemon(pid):
        if time.monotonic() > until_s:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.02)


def _is_daemon(pid: int) -> bool:
    """Check the name, because the pid may have been reused. The system cuts names at 15 characters."""
    try:
        head, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        return head.endswith(f"({PROGRAM[:15]}") and not rest.startswith(" Z")  # Z: a zombie
    except OSError:
        return False
