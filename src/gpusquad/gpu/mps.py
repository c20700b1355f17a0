"""The multi-process service for one card, with a daemon of our own: started, used, stopped, and nothing left behind.

Its pipe and log folder are its own, so a daemon that the machine has already is neither used nor disturbed. The card's
compute mode stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

from gpusquad.model.errors import Invalid
from gpusquad.model.units import WHOLE_MILLI

PROGRAM = "nvidia-cuda-mps-control"
_PIPES, _LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
_SHARE, _CARDS = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_VISIBLE_DEVICES"
_NOWHERE = "/proc/no-daemon-here"  # a folder that nobody can make, not even root
_WITHIN_S = 20.0
_ENDS_WITHIN_S = 5.0


class Run(Protocol):
    """Runs a program to its end where the card is: here, or in a pod."""

    def __call__(self, argv: Sequence[str], env: Mapping[str, str], words: str = "") -> str: ...


def run_here(argv: Sequence[str], env: Mapping[str, str], words: str = "") -> str:
    """What it printed. Invalid: it is not there, fails, or does not end."""
    try:
        done = subprocess.run(
            list(argv), env={**os.environ, **env}, input=words, text=True, capture_output=True, timeout=_WITHIN_S
        )
    except FileNotFoundError:
        raise Invalid("sharing", f"{argv[0]} is not installed", "it comes with NVIDIA's driver") from None
    except subprocess.TimeoutExpired:
        raise Invalid("sharing", f"{argv[0]} did not answer within {_WITHIN_S:g} s") from None
    if done.returncode != 0:
        raise Invalid("sharing", f"{argv[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


def no_daemon_env(card: str) -> dict[str, str]:
    """For time slicing: the card, and a pipe folder where no daemon is, not even the machine's own."""
    return {_CARDS: card, _PIPES: _NOWHERE}


class Mps:
    """``with Mps("0") as mps: Popen(…, env=mps.env(500))``: half of the SMs of the first card."""

    def __init__(self, card: str, run: Run = run_here, folder: str | None = None) -> None:
        self._card = card
        self._run = run
        self._own_folder = folder is None
        self._folder = Path(folder if folder is not None else tempfile.mkdtemp(prefix="gpusquad-mps-"))
        self._daemon_env = {_PIPES: str(self._folder / "pipe"), _LOGS: str(self._folder / "log")}

    def __enter__(self) -> Mps:
        try:
            self._run(["mkdir", "-p", *self._daemon_env.values()], {})
            self._run([PROGRAM, "-d"], {**self._daemon_env, _CARDS: self._card})
        except BaseException:
            self._clean()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pid = self._pid()
        try:
            self._run([PROGRAM], self._daemon_env, f"quit -t {_ENDS_WITHIN_S:g}\n")
        except Invalid:
            if pid is None and error is None:
                raise
        finally:
            _end(pid)
            self._clean()

    def env(self, sm_milli: int = WHOLE_MILLI) -> dict[str, str]:
        """For a client. The daemon numbers the cards it was given from 0; a UUID stays a UUID."""
        card = self._card if self._card.startswith("GPU-") else "0"
        share = {} if sm_milli == WHOLE_MILLI else {_SHARE: f"{sm_milli / 10:g}"}
        return {**self._daemon_env, _CARDS: card, **share}

    def _pid(self) -> int | None:
        """Of the daemon, where it is on this machine."""
        try:
            return int((self._folder / "pipe" / f"{PROGRAM}.pid").read_text())
        except (OSError, ValueError):
            return None

    def _clean(self) -> None:
        if self._own_folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def _end(pid: int | None) -> None:
    """Waits for a daemon that was told to quit; one that does not is killed."""
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
    """A number may have gone to another process since: its name is looked at. The system cuts names at 15 letters."""
    try:
        head, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        return head.endswith(f"({PROGRAM[:15]}") and not rest.startswith(" Z")  # Z: ended, nobody has asked how
    except OSError:
        return False
