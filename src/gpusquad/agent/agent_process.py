"""The server's end of the agent: keeps one running, hands its messages on, tells it what runs."""

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
    """How long to wait for what."""

    first_restart_s: float = 0.5
    """Doubles with every agent that dies young."""
    longest_restart_s: float = 30.0
    young_s: float = 60.0
    silence_s: float = 60.0
    """An agent that says nothing for so long is stuck, most likely in the driver, and is replaced."""
    close_s: float = 5.0


class AgentProcess:
    """An agent that is started again whenever it dies; each says its inventory first.

    ``on_message`` is called in a thread of ours, with one message at a time.
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
        self._untold: subprocess.Popen[bytes] | None = None
        """The agent that has not heard of the runs as they are now."""
        self._agent: subprocess.Popen[bytes] | None = None
        # The kernel ends an agent when the thread that started it ends, so one thread starts them all and stays.
        self._keeping = threading.Thread(target=self._keep, name="agent-keeper", daemon=True)
        self._telling = threading.Thread(target=self._tell, name="agent-teller", daemon=True)
        self._keeping.start()
        self._telling.start()

    def tell_runs(self, runs: Sequence[dict[str, Any]]) -> None:
        """What runs now, in full. Returns at once; an agent that starts later hears it too."""
        with self._changed:
            self._runs = list(runs)
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
                agent.kill()  # whoever says goodbye may have been there before it
        try:
            for line in self._lines(agent):
                self._take(line)
        finally:
            self._bury(agent)
        if not self._closing.is_set():
            _log.warning("the agent ended with status %s and is started again", agent.returncode)

    def _command_line(self) -> list[str]:
        """A later agent must miss the cards that an earlier one found, not just find fewer."""
        return self._command + (["--expect", ",".join(self._cards)] if self._cards else [])

    def _bury(self, agent: subprocess.Popen[bytes]) -> None:
        """Let go of it, and wait: two agents at a time would only fight for a stuck driver."""
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

    # -- listening ---------------------------------------------------------------------------------------------------

    def _lines(self, agent: subprocess.Popen[bytes]) -> Iterator[bytes]:
        """Whole lines until the agent closes its end or falls silent."""
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

    # -- telling -----------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        """In a thread of its own: a stuck agent does not read, and nobody else should wait for it."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._untold is not None or self._closing.is_set())
                agent, runs = self._untold or self._agent, self._runs
                self._untold = None
            if self._closing.is_set():
                self._say_goodbye(agent)
                return
            if agent is not None:
                self._write(agent, encode({"runs": runs}))

    def _write(self, agent: subprocess.Popen[bytes], line: bytes) -> None:
        assert agent.stdin is not None
        view = memoryview(line)
        with self._writing, contextlib.suppress(OSError, ValueError):  # it died: the next one is told anew
            while view:
                view = view[agent.stdin.write(view) :]

    def _say_goodbye(self, agent: subprocess.Popen[bytes] | None) -> None:
        if agent is not None and agent.stdin is not None:
            with self._writing, contextlib.suppress(OSError):
                agent.stdin.close()
