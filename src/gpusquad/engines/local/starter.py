"""Starts supervisors, a few at a time, and sends them their launch orders."""

from __future__ import annotations

import errno
import logging
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Literal

from gpusquad.engines.local import folders, launch_orders, spawn
from gpusquad.engines.local.attempts import NONE, Attempt
from gpusquad.engines.local.free_ports import FreePorts
from gpusquad.engines.local.launch_orders import LaunchContext
from gpusquad.engines.local.loop import EngineLoop
from gpusquad.engines.local.shares import NO_PARTS, ShareEnvironment, Shares, has_parts
from gpusquad.model.errors import Invalid, NotReady

How = Literal["failed", "lost"]
"""failed: a retry would not help."""
_log = logging.getLogger(__name__)
_PASSING = (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)
"""The machine lacks something now that it may have in a moment."""
_TRIES = 30
_PAUSE_S = 1.0
_SLOT_S = 5.0
"""A start that takes longer waits for something other than CPU, and does not block others."""


class Starter:
    """Part of the engine's loop."""

    def __init__(
        self,
        loop: EngineLoop,
        around: LaunchContext,
        ports: FreePorts,
        at_once: int,
        on_begun: Callable[[Attempt], None],
        on_failed: Callable[[Attempt, How, str], None],
        shares: Shares,
    ) -> None:
        self._loop = loop
        self._around = around
        self._ports = ports
        self._free_slots = at_once
        self._queue: deque[Attempt] = deque()
        self._on_begun = on_begun
        self._on_failed = on_failed
        self._shares = shares
        self.knows_all = False
        """Before that, attempts that ended while the service was away may still hold the share that a gang is to get.
        """

    def add(self, attempt: Attempt) -> None:
        """Start it when its turn comes, unless it is stopped before."""
        self._queue.append(attempt)
        self._fill()

    def has_started(self, attempt: Attempt) -> None:
        """It runs, has ended, or takes too long: another may start. No effect if this was already recorded."""
        if attempt.holds_slot:
            attempt.holds_slot = False
            self._free_slots += 1
            self._fill()

    def stop_feeding(self, attempt: Attempt) -> None:
        """It has its order, or is dead."""
        if attempt.feed != NONE:
            self._loop.forget(attempt.feed)
            os.close(attempt.feed)
        attempt.feed, attempt.order = NONE, b""

    def _fill(self) -> None:
        while self._queue and self._free_slots > 0:
            attempt = self._queue.popleft()
            if attempt.stop is None and not self._waits_for_parts(attempt):
                self._begin(attempt)

    def _waits_for_parts(self, attempt: Attempt) -> bool:
        """It comes back here when it has them. Others start meanwhile."""
        assert attempt.launch is not None
        if attempt.parts is not None or not has_parts(attempt.launch):
            return False
        self._shares.give(attempt.launch, lambda given: self._loop.call(partial(self._has_parts, attempt, given)))
        return True

    def _has_parts(self, attempt: Attempt, given: ShareEnvironment | Exception) -> None:
        if attempt.stop is not None:
            return  # it has ended; what it was given is released with that of all ended attempts
        match given:
            case ShareEnvironment():
                attempt.parts = given
                self._queue.appendleft(attempt)
                self._fill()
            case NotReady():
                self._on_failed(attempt, "lost", f"its part of a card cannot be given here now: {given}")
            case Invalid() if not self.knows_all and attempt.tries < _TRIES:
                attempt.tries += 1
                self._loop.later(_PAUSE_S, partial(self.add, attempt))
            case Invalid():
                self._on_failed(attempt, "failed", f"its part of a card cannot be given: {given}")
            case OSError():
                self._retry_or_fail(attempt, given)
            case _:
                _log.error("attempt %s has no part of a card", attempt.key, exc_info=given)
                self._on_failed(attempt, "lost", f"its part of a card could not be given here: {given}")

    def _begin(self, attempt: Attempt) -> None:
        try:
            supervisor = self._prepare_and_spawn(attempt)
        except OSError as error:
            return self._retry_or_fail(attempt, error)
        except Exception as error:  # whatever the error is, it must be reported to the job's owner
            _log.exception("attempt %s cannot begin", attempt.key)
            return self._on_failed(attempt, "lost", f"the gang could not be started here: {error}")
        attempt.launch = None
        attempt.pidfd, attempt.feed, attempt.ready = supervisor.pidfd, supervisor.feed, supervisor.ready
        attempt.holds_slot = True
        self._free_slots -= 1
        self._loop.later(_SLOT_S, partial(self.has_started, attempt))
        self._loop.on_writable(attempt.feed, partial(self._feed, attempt))
        self._on_begun(attempt)

    def _prepare_and_spawn(self, attempt: Attempt) -> spawn.SpawnedSupervisor:
        assert attempt.launch is not None
        folders.make(attempt.launch, self._around.home)
        if not attempt.ports:
            attempt.ports = self._ports.give(1 + len(attempt.launch.tasks))
        folders.write_host_files(attempt.launch, self._around.home, attempt.ports)
        attempt.order = launch_orders.encode(attempt.launch, attempt.ports, self._around, attempt.parts or NO_PARTS)
        return spawn.spawn(attempt.folder)

    def _retry_or_fail(self, attempt: Attempt, error: OSError) -> None:
        attempt.tries += 1
        if error.errno in _PASSING and attempt.tries < _TRIES:
            _log.warning("attempt %s cannot begin yet: %s", attempt.key, error)
            self._loop.later(_PAUSE_S, partial(self.add, attempt))
        else:
            self._on_failed(attempt, "lost", f"the gang could not be started here: {error}")

    def _feed(self, attempt: Attempt) -> None:
        try:
            done_bytes = os.write(attempt.feed, attempt.order)
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.stop_feeding(attempt)
            return
        attempt.order = attempt.order[done_bytes:]
        if not attempt.order:
            self.stop_feeding(attempt)
