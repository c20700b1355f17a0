"""The server's side of the agent: keeps one running, forwards its messages, sends it the runs."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpusquad.agent.wire import decode, encode

OnMessage = Callable[[dict[str, Any]], None]

_CHUNK_BYTES = 256 * 1024
_LONGEST_LINE = 32 * 2**20
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgentTimeouts:
    """Timeouts of the agent process."""

    first_restart_s: float = 0.5
    """Doubles with every agent that dies soon after its start."""
    longest_restart_s: float = 30.0
    young_s: float = 60.0
    silence_s: float = 60.0
    """An agent that is silent for this long is stuck, most likely in the driver, and is replaced."""
    close_s: float = 5.0


class AgentProcess:
    """An agent that is restarted whenever it dies. Each one reports its inventory first.

    ``on_message`` is called in a thread of this object, with one message at a time.
    """

    def __init__(
        self,
        on_message: OnMessage,
        arguments: Sequence[str],
        *,
        command: Sequence[str] = (sys.executable, "-P", "-m", "gpusquad.agent"),
        patience: AgentTimeouts = AgentTimeouts(),
    ) -> None:
        self._on_message = on_message
        self._command = [*command, *arguments, "--parent", str(os.getpid())]
        self._cards: list[str] = []
        self._patience = patience
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._closing = threading.Event()
        self._runs: list[dict[str, Any]] = []
        self._tests: list[str] = []
        self._untold: subprocess.Popen[bytes] | None = None
        """The agent that has not received the current runs and tests."""
        self._agent: subprocess.Popen[bytes] | None = None
        # The kernel ends an agent when the thread that started it ends, so one permanent thread starts them all.
        self._keeping = threading.Thread(target=self._keep, name="agent-keeper", daemon=True)
        self._telling = threading.Thread(target=self._tell, name="agent-teller", daemon=True)
        self._keeping.start()
        self._telling.start()

    def tell_runs(self, runs: Sequence[dict[str, Any]]) -> None:
        """Set the current runs, complete. Returns at once; an agent that starts later receives them too."""
        with self._changed:
            self._runs = list(runs)
            self._untold = self._agent
            self._changed.notify_all()

    def tell_tests(self, cards: Sequence[str]) -> None:
        """Set the cards that the agent shall test, complete. Like ``tell_runs``."""
        with self._changed:
            self._tests = list(cards)
            self._untold = self._agent
            self._changed.notify_all()

    def close(self) -> None:
        """End the agent and wait until no more messages come."""
        self._closing.set()
        with self._changed:
            self._changed.notify_all()
        if threading.current_thread() is self._keeping:
            return  # called from on_message: the thread ends by itself
        self._keeping.join(self._patience.close_s)
        if self._keeping.is_alive():
            self._kill()
            self._keeping.join(self._patience.close_s)
        self._telling.join(self._patience.close_s)

    # -- keeping one alive -------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        wait_s = self._patience.first_restart_s
        while not self._closing.is_set():
            started_s = time.monotonic()
            self._run_one()
            if time.monotonic() - started_s >= self._patience.young_s:
                wait_s = self._patience.first_restart_s
            if self._closing.wait(wait_s):
                return
            wait_s = min(wait_s * 2, self._patience.longest_restart_s)

    def _run_one(self) -> None:
        """From the start of an agent to its end."""
        try:
            agent = subprocess.Popen(self._command_line(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        except OSError as error:
            _log.error("the agent does not start: %s", error)
            return
        with self._changed:
            self._agent = self._untold = agent
            self._changed.notify_all()
            if self._closing.is_set():
                agent.kill()  # close() may have been called before the agent existed
        try:
            for line in self._lines(agent):
                self._take(line)
        finally:
            self._bury(agent)
        if not self._closing.is_set():
            _log.warning("the agent ended with status %s and is started again", agent.returncode)

    def _command_line(self) -> list[str]:
        """A later agent must report cards that an earlier one found as missing, not just find fewer."""
        return self._command + (["--expect", ",".join(self._cards)] if self._cards else [])

    def _bury(self, agent: subprocess.Popen[bytes]) -> None:
        """Close it and wait: two agents at a time would compete for a stuck driver."""
        agent.kill()
        with self._changed:
            self._agent = self._untold = None
            self._changed.notify_all()
        assert agent.stdin is not None
        assert agent.stdout is not None
        agent.stdout.close()
        with self._writing:
            agent.stdin.close()
        agent.wait()

    def _kill(self) -> None:
        with self._changed:
            agent = self._agent
        if agent is not None:
            agent.kill()

    # -- receiving ---------------------------------------------------------------------------------------------------

    def _lines(self, agent: subprocess.Popen[bytes]) -> Iterator[bytes]:
        """Complete lines until the agent closes its end or is silent for too long."""
        assert agent.stdout is not None
        rest = b""
        while chunk := self._chunk(agent.stdout.fileno()):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
            if len(rest) > _LONGEST_LINE:
                _log.warning("the agent sent a line without an end")
                return

    def _chunk(self, file: int) -> bytes:
        ready, _, _ = select.select([file], [], [], self._patience.silence_s)
        if not ready:
            _log.warning("the agent said nothing for %g s", self._patience.silence_s)
            return b""
        return os.read(file, _CHUNK_BYTES)

    def _take(self, line: bytes) -> None:
        try:
            message = decode(line)
        except ValueError as error:
            _log.warning("the agent sent what is no message (%s): %.200r", error, line)
            return
        try:
            if message["kind"] == "inventory":
                self._remember_cards(message)
            self._on_message(message)
        except Exception:
            _log.exception("a message of the agent (%s) could not be handled", message["kind"])

    def _remember_cards(self, inventory: dict[str, Any]) -> None:
        if not inventory["simulated"]:
            self._cards = [card["id"] for card in inventory["node"]["cards"]]

    # -- sending -----------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        """In a thread of its own: a stuck agent does not read, and must not block others."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._untold is not None or self._closing.is_set())
                agent, told = self._untold or self._agent, {"runs": self._runs, "tests": self._tests}
                self._untold = None
            if self._closing.is_set():
                self._say_goodbye(agent)
                return
            if agent is not None:
                self._write(agent, encode(told))

    def _write(self, agent: subprocess.Popen[bytes], line: bytes) -> None:
        assert agent.stdin is not None
        view = memoryview(line)
        with self._writing, contextlib.suppress(OSError, ValueError):  # it died: the next one receives them again
            while view:
                view = view[agent.stdin.write(view) :]

    def _say_goodbye(self, agent: subprocess.Popen[bytes] | None) -> None:
        if agent is not None and agent.stdin is not None:
            with self._writing, contextlib.suppress(OSError):
                agent.stdin.close()
