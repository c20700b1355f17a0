"""Watches attempts from launch or adoption to their end, in the engine's loop."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from functools import partial

from gpusquad.core.ports import Launch
from gpusquad.engines.local import adoption, processes, spawn, status, stop_file
from gpusquad.engines.local.adoption import AbandonedAttempt, EndedAttempt, Finding, LiveAttempt, UnclaimedAttempt
from gpusquad.engines.local.attempts import NONE, Attempt
from gpusquad.engines.local.free_ports import FreePorts
from gpusquad.engines.local.launch_orders import LaunchContext
from gpusquad.engines.local.loop import EngineLoop
from gpusquad.engines.local.names import Key, run_folder
from gpusquad.engines.local.orphans import OrphanCleanup, OrphanReaper
from gpusquad.engines.local.reporter import ReportQueue
from gpusquad.engines.local.shares import Shares
from gpusquad.engines.local.starter import How, Starter
from gpusquad.engines.local.stop_file import StopRequest
from gpusquad.engines.local.supervisor.launch_order import STARTED, TROUBLE

_log = logging.getLogger(__name__)
_START_LOOK_S = 0.05
_AGAIN_S = 1.0
_STUCK_S = 120.0
"""After the grace time: how long until a supervisor that does not end is killed."""
_ORPHAN_GRACE_S = 10.0
_PAUSE_S = 2.0
"""Before the grace time: longest wait for the tasks' work on shared cards; never longer than the grace time."""
_DRAIN_S = 2.0
"""Before the end of the grace time: when to drain the tasks' remaining work from shared cards."""


class AttemptWatcher:
    """At most one `Attempt` per key. An attempt that has ended is known by its run folder only."""

    def __init__(
        self,
        loop: EngineLoop,
        around: LaunchContext,
        reporter: ReportQueue,
        reaper: OrphanReaper,
        start_at_once: int,
        shares: Shares,
    ) -> None:
        self._loop = loop
        self._home = around.home
        self._reporter = reporter
        self._reaper = reaper
        self._ports = FreePorts()
        self._starter = Starter(loop, around, self._ports, start_at_once, self._begun, self._not_begun, shares)
        self._attempts: dict[Key, Attempt] = {}
        self._shares = shares
        self._knows_all = False
        """Before that, processes that seem orphaned may belong to a gang that has not been found yet."""

    def launch(self, launch: Launch) -> None:
        """An attempt that was launched before is looked up instead."""
        key = (launch.job_id, launch.attempt)
        if not self._is_known(key):
            self._settle(self._new(key, launch))

    def stop(self, key: Key, stop: StopRequest) -> None:
        if not self._is_known(key):
            self._settle(self._new(key), "nothing is known of this attempt")
        attempt = self._attempts.get(key)
        if attempt is not None:
            self._stop(attempt, stop)

    def recover(self, key: Key) -> None:
        """An attempt that the store believes to be running."""
        if not self._is_known(key):
            self._settle(self._new(key), "the service ended before the gang was started")

    def orphan(self, key: Key, has_orphans: bool) -> None:
        """A run folder that the store did not name: nothing may start or run there."""
        if key in self._attempts:
            return
        attempt = self._new(key)
        attempt.is_orphan = True
        grace_s = self._status(attempt).get("grace_s", _ORPHAN_GRACE_S)
        attempt.stop = StopRequest("the service does not know this attempt", grace_s)
        attempt.has_orphans = has_orphans
        self._settle(attempt, attempt.stop.cause)

    def knows_all(self) -> None:
        """Everything that was there when the service came back has been named."""
        self._knows_all = self._starter.knows_all = True
        self._take_parts_back()

    def close(self) -> None:
        """Call it after the loop has ended. Supervisors continue."""
        while self._attempts:
            _, attempt = self._attempts.popitem()
            if attempt.is_pausing:  # nothing else would send it
                processes.send(attempt.pidfd, signal.SIGTERM)
            for handle in (attempt.pidfd, attempt.feed, attempt.ready):
                if handle != NONE:
                    os.close(handle)

    # -- discovery

    def _is_known(self, key: Key) -> bool:
        """Its end will be reported, because the store now asks for it."""
        attempt = self._attempts.get(key)
        if attempt is not None and attempt.is_orphan:
            attempt.is_orphan = False
            self._look_for_start(attempt)
        return attempt is not None

    def _new(self, key: Key, launch: Launch | None = None) -> Attempt:
        attempt = self._attempts[key] = Attempt(key, run_folder(self._home, key), launch)
        return attempt

    def _settle(self, attempt: Attempt, unclaimed: str = "") -> None:
        """Read the state and continue from there. ``unclaimed``: the outcome if no supervisor has started it."""
        if self._attempts.get(attempt.key) is not attempt:
            return  # it ended while we waited to look again
        try:
            self._follow(attempt, adoption.examine(attempt.folder), unclaimed)
        except OSError:
            _log.exception("what became of attempt %s cannot be seen yet", attempt.key)
            self._loop.later(_AGAIN_S, partial(self._settle, attempt, unclaimed))

    def _follow(self, attempt: Attempt, found: Finding, unclaimed: str) -> None:
        if not isinstance(found, UnclaimedAttempt):
            attempt.launch = None
        match found:
            case EndedAttempt(end) if attempt.has_orphans:
                self._reap_orphans(attempt, {**self._status(attempt), "end": end})
            case EndedAttempt(end):
                self._finish(attempt, end)
            case LiveAttempt(pidfd):
                self._adopt(attempt, pidfd)
            case AbandonedAttempt(known):
                self._reap_orphans(attempt, known)
            case UnclaimedAttempt() if attempt.launch is not None and attempt.stop is None:
                self._starter.add(attempt)
            case UnclaimedAttempt():
                self._close_unclaimed(attempt, "lost", unclaimed)

    def _adopt(self, attempt: Attempt, pidfd: int) -> None:
        """A supervisor that was started by another service, or by this one before a restart."""
        attempt.pidfd = pidfd
        self._loop.on_readable(pidfd, partial(self._gone, attempt))
        self._ports.take_back(attempt.ports)
        attempt.ports = list(self._status(attempt).get("ports", ()))
        self._ports.keep(attempt.ports)
        self._look_for_start(attempt)
        if attempt.stop is not None:
            self._stop(attempt, attempt.stop)

    def _close_unclaimed(self, attempt: Attempt, how: str, cause: str) -> None:
        """No supervisor can start it from now on."""
        if attempt.stop is not None and not attempt.is_orphan:
            how, cause = "stopped", attempt.stop.cause
        end = adoption.never_started(how, cause)
        try:
            found = adoption.close_unclaimed(attempt.folder, end)
        except OSError as error:
            _log.warning("attempt %s cannot be closed: %s", attempt.key, error)
            # If there is no room for a claim, no supervisor can take it either, and none of ours is starting.
            found = EndedAttempt(end)
        self._follow(attempt, found, cause)

    # -- starts

    def _begun(self, attempt: Attempt) -> None:
        self._loop.on_readable(attempt.ready, partial(self._hear, attempt))
        self._loop.on_readable(attempt.pidfd, partial(self._gone, attempt))

    def _not_begun(self, attempt: Attempt, how: How, cause: str) -> None:
        self._close_unclaimed(attempt, how, cause)

    def _hear(self, attempt: Attempt) -> None:
        """The supervisor reported that every task runs or that none can, or closed its output."""
        try:
            said = os.read(attempt.ready, 4096)
        except BlockingIOError:  # dead, and its children are about to end
            said = b""
        self._loop.forget(attempt.ready)
        os.close(attempt.ready)
        attempt.ready = NONE
        self._starter.has_started(attempt)
        if said.startswith(TROUBLE):
            attempt.trouble = said.removeprefix(TROUBLE).decode("utf-8", "replace")
        elif said == STARTED:
            self._look_for_start(attempt)

    def _look_for_start(self, attempt: Attempt) -> None:
        """Polled for an adopted gang: the pipe that would report it was closed with the service that created it."""
        if attempt.said_started or self._attempts.get(attempt.key) is not attempt or not attempt.is_begun:
            return
        known = self._status(attempt)
        if not adoption.has_started(known):
            self._loop.later(_START_LOOK_S, partial(self._look_for_start, attempt))
        elif not attempt.is_orphan:
            attempt.said_started = True
            self._reporter.send(adoption.started(attempt.key, known))

    def _status(self, attempt: Attempt) -> dict:
        try:
            return status.read(attempt.folder) or {}
        except OSError:
            return {}

    # -- ends

    def _stop(self, attempt: Attempt, stop: StopRequest) -> None:
        attempt.stop = attempt.stop or stop
        if attempt.is_begun:
            self._ask_to_stop(attempt, stop)
        elif attempt.launch is not None:  # otherwise its end is already being reported
            self._close_unclaimed(attempt, "stopped", stop.cause)

    def _ask_to_stop(self, attempt: Attempt, stop: StopRequest) -> None:
        """The first cause counts, the grace time of each request."""
        assert attempt.stop is not None
        try:
            before = stop_file.read(attempt.folder)
            cause = attempt.stop.cause if before is None else before.cause
            stop_file.ask(attempt.folder, StopRequest(cause, stop.grace_s))
        except OSError as error:
            _log.warning("attempt %s cannot be told to stop, so it is killed: %s", attempt.key, error)
            self._tell_to_stop(attempt, stop, signal.SIGKILL)
            return
        if before is None and stop.grace_s > 0.0 and self._shares.are_enforced:
            self._pause(attempt, stop)
        else:
            self._tell_to_stop(attempt, stop)

    def _pause(self, attempt: Attempt, stop: StopRequest) -> None:
        """Drain, then stop. Most programs die on the first signal, and a death during a kernel harms the neighbours on
        the card. A task is still stopped if the drain is never confirmed.
        """
        attempt.is_pausing = True
        go_on = partial(self._go_on_to_stop, attempt, stop)
        within_s = min(_PAUSE_S, stop.grace_s)
        self._loop.later(within_s, go_on)
        self._shares.pause(attempt.key, self._tasks(attempt), within_s, lambda: self._loop.call(go_on))

    def _go_on_to_stop(self, attempt: Attempt, stop: StopRequest) -> None:
        if attempt.is_pausing:
            self._tell_to_stop(attempt, stop)

    def _tell_to_stop(self, attempt: Attempt, stop: StopRequest, number: int = signal.SIGTERM) -> None:
        attempt.is_pausing = False
        processes.send(attempt.pidfd, number)
        self._loop.later(max(0.0, stop.grace_s - _DRAIN_S), partial(self._drain, attempt, min(stop.grace_s, _DRAIN_S)))
        self._loop.later(stop.grace_s + _STUCK_S, partial(self._kill_stuck, attempt))

    def _drain(self, attempt: Attempt, within_s: float) -> None:
        """It did not end within its grace time, which is almost over."""
        if attempt.is_begun:
            self._shares.drain(attempt.key, self._tasks(attempt), within_s)

    def _tasks(self, attempt: Attempt) -> int:
        """None before they were started."""
        return len(self._status(attempt).get("tasks", ()))

    def _kill_stuck(self, attempt: Attempt) -> None:
        """Its tasks die with it, and orphans are searched for."""
        if attempt.is_begun:
            _log.error("the supervisor of attempt %s does not end, so it is killed", attempt.key)
            processes.send(attempt.pidfd, signal.SIGKILL)

    def _gone(self, attempt: Attempt) -> None:
        """The supervisor has ended, one way or another."""
        self._loop.forget(attempt.pidfd)
        if attempt.ready != NONE:
            self._hear(attempt)
        self._starter.stop_feeding(attempt)
        self._starter.has_started(attempt)
        code = spawn.reap(attempt.pidfd)
        os.close(attempt.pidfd)
        attempt.pidfd, attempt.is_pausing = NONE, False
        attempt.trouble = attempt.trouble or _how_it_ended(code)
        self._settle(attempt, f"the supervisor of the gang could not start: {_error_output(attempt)}")

    def _reap_orphans(self, attempt: Attempt, known: dict) -> None:
        """Find and kill what is left of it."""
        self._reaper.add(OrphanCleanup(attempt.key, attempt.folder, known, partial(self._on_clear, attempt, known)))

    def _on_clear(self, attempt: Attempt, known: dict, note: str) -> None:
        """Called by the orphan reaper, from its own thread."""
        self._loop.call(partial(self._cleared, attempt, known, note))

    def _cleared(self, attempt: Attempt, known: dict, note: str) -> None:
        """No process of an abandoned attempt is left."""
        cause = f"the supervisor of the gang died: {_error_output(attempt)}{note}"
        end = adoption.end_of_abandoned(attempt.folder, known, cause)
        if attempt.stop is not None and end["how"] == "lost":
            end = {**end, "how": "stopped", "cause": attempt.stop.cause}
        with contextlib.suppress(OSError):  # the same will be found again
            adoption.write_end(attempt.folder, known, end)
        self._finish(attempt, end)

    def _finish(self, attempt: Attempt, end: dict) -> None:
        del self._attempts[attempt.key]
        self._ports.take_back(attempt.ports)
        self._take_parts_back()
        if not attempt.is_orphan:
            self._reporter.send(adoption.ended(attempt.key, end))

    def _take_parts_back(self) -> None:
        """Before the end is reported: the next gang may need the resources."""
        if self._knows_all:
            self._shares.keep_only(self._attempts)


def _how_it_ended(code: int | None) -> str:
    if code is None:
        return ""
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _error_output(attempt: Attempt) -> str:
    """Everything known about why the supervisor ended."""
    parts = [part for part in (attempt.trouble, spawn.last_words(attempt.folder)) if part]
    return "; ".join(parts) or "cause unknown"
