"""The agent's loop: report the inventory, then samples every second, until the server closes the connection."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from typing import Any, BinaryIO

from gpusquad.agent.health import WELL_FOR_S, CardHealth
from gpusquad.agent.inventory import Inventory, SourceUnavailable
from gpusquad.agent.machine import this_machine
from gpusquad.agent.quiet_runs import QUIET_S, QuietRuns
from gpusquad.agent.sampler import Sampler, inventory_message
from gpusquad.agent.self_test import CardTests
from gpusquad.agent.wire import WatchedRun, encode, read_runs, read_tests
from gpusquad.model.card_faults import FaultClass

_LONGEST_LINE = 64 * 2**20
_PATIENCE_S = 2.0
_log = logging.getLogger(__name__)


class Agent:
    """Two streams of JSON lines around an inventory."""

    def __init__(
        self,
        inventory: Inventory,
        told: BinaryIO,
        out: BinaryIO,
        every_s: float = 1.0,
        well_for_s: float = WELL_FOR_S,
        quiet_s: float = QUIET_S,
    ) -> None:
        self._inventory = inventory
        self._told = told
        self._out = out
        self._every_s = every_s
        self._health = CardHealth([card.id for card in inventory.cards], well_for_s)
        self._tests = CardTests(inventory.tester)
        self._sampler = Sampler(inventory, self._health, tests=self._tests, quiet=QuietRuns(quiet_s=quiet_s))
        self._runs: tuple[WatchedRun, ...] = ()
        self._ending = threading.Event()
        self._writing = threading.Lock()

    def run(self) -> None:
        """Run until the server closes its end. SourceUnavailable: a new process is needed to read the cards."""
        self._say(inventory_message(self._inventory, this_machine()))
        threading.Thread(target=self._listen, name="server", daemon=True).start()
        self._inventory.watch(self._on_fault)
        try:
            self._tick_until_the_end()
        finally:
            self._inventory.close()

    def exit_if_stuck(self) -> None:
        """A call into a broken driver may never return. It must not keep the agent alive when the server is gone."""
        self._ending.wait()
        time.sleep(_PATIENCE_S)
        os._exit(0)

    def _tick_until_the_end(self) -> None:
        due_s = time.monotonic()
        while not self._ending.is_set():
            self._tick()
            # A late tick is not made up for: samples in a burst carry no information.
            due_s = max(due_s + self._every_s, time.monotonic())
            self._ending.wait(due_s - time.monotonic())

    def _tick(self) -> None:
        try:
            for message in self._sampler.sample(self._runs):
                self._say(message)
        except SourceUnavailable:
            raise
        except Exception:
            # The next reading may succeed, and monitoring must not fail before the jobs do.
            _log.exception("one look failed")

    def _on_fault(self, card: str, cause: str, kind: FaultClass) -> None:
        for message in self._health.fault(card, cause, time.monotonic(), kind):
            self._say(message)

    def _listen(self) -> None:
        while line := self._told.readline(_LONGEST_LINE):
            try:
                self._runs = read_runs(line)
                self._tests.ask(read_tests(line))
            except ValueError as error:
                _log.warning("%s", error)
        self._ending.set()

    def _say(self, message: Mapping[str, Any]) -> None:
        line = encode(message)
        with self._writing:
            try:
                self._out.write(line)
                self._out.flush()
            except (BrokenPipeError, ValueError):
                self._ending.set()
