"""Self-tests of cards: the port, its implementation for NVIDIA cards, and the tests that wait or run now."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gpusquad.agent.inventory import CardProcess, CardReading, CardTester, TestResult
from gpusquad.gpu.attach.client_environment import own_environment
from gpusquad.gpu.daemon.unmanaged import UnmanagedProcess
from gpusquad.gpu.mps import no_daemon_env
from gpusquad.gpu.timeout_run import run_within
from gpusquad.model.virtual import physical

TIMEOUT_S = 60.0
"""A test that takes longer has failed. It takes a few seconds."""
MAX_AT_ONCE = 4
MAX_DETAIL = 300
_log = logging.getLogger(__name__)
_PROGRAM = (sys.executable, "-P", "-m", "gpusquad.gpu.self_test")


class CudaTester:
    """Runs ``gpusquad.gpu.self_test`` as a program, because a broken driver may never return."""

    def __init__(self, program: Collection[str] = _PROGRAM, timeout_s: float = TIMEOUT_S) -> None:
        self._program = tuple(program)
        self._timeout_s = timeout_s

    def test(self, card: str) -> TestResult:
        try:
            done = run_within(self._timeout_s, [*self._program, card], own_environment() | no_daemon_env(card))
        except subprocess.TimeoutExpired:
            return TestResult(False, f"the card did not finish it within {self._timeout_s:g} s")
        except OSError as error:
            return TestResult(None, str(error)[:MAX_DETAIL])
        try:
            told = json.loads(done.stdout)
            return TestResult(told["passed"], str(told["detail"])[:MAX_DETAIL])
        except (ValueError, KeyError, TypeError):
            complaint = done.stderr.strip().splitlines() or [f"it ended with exit status {done.returncode}"]
            return TestResult(None, complaint[-1][:MAX_DETAIL])


def free_cards(readings: Sequence[CardReading], used: Iterable[str]) -> Callable[[str], bool]:
    """Whether a physical card answers well and neither a job nor another process that matters is on it. ``used``: cards
    of jobs and of their processes."""
    busy = {physical(card) for card in used}
    for reading in readings:
        if reading.trouble is not None or not all(map(_is_harmless, reading.processes or ())):
            busy.add(physical(reading.id))
    return lambda card: card not in busy


def _is_harmless(process: CardProcess) -> bool:
    return UnmanagedProcess(process.pid, process.name, process.memory_bytes or 0).is_harmless


class NoTester:
    """For machines without cards."""

    def test(self, card: str) -> TestResult:
        return TestResult(None, f"there is no card {card}")


class CardTests:
    """Wanted, running and finished tests of this machine's cards. ``step`` is called by one thread; others may ask for
    tests. Parts of a divided card are tested together."""

    def __init__(
        self,
        tester: CardTester,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        clock_s: Callable[[], float] = time.monotonic,
        in_background: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self._tester = tester
        self._now_us = now_us
        self._clock_s = clock_s
        self._in_background = in_background or _in_thread
        self._lock = threading.Lock()
        self._asked: frozenset[str] = frozenset()
        """By the service. It repeats its list until it has the results."""
        self._done: dict[str, dict[str, Any]] = {}
        """Physical card to its last result, as it is sent."""
        self._answered: set[str] = set()
        """Asked for by the service, and tested since."""
        self._running: set[str] = set()
        self._finished: list[tuple[str, TestResult]] = []

    def ask(self, cards: Iterable[str]) -> None:
        """The complete list of cards that the service wants to be tested."""
        with self._lock:
            self._asked = frozenset(map(physical, cards))
            self._answered &= self._asked

    def result(self, card: str) -> Mapping[str, Any] | None:
        """Of the card's last test. None: it was not tested since the start."""
        return self._done.get(physical(card))

    def step(self, faulty: Collection[str], is_free: Callable[[str], bool]) -> list[tuple[str, TestResult]]:
        """Start the tests that can run now. Returns those that have ended since. ``faulty``: cards with a fault that a
        test may clear. ``is_free``: whether a physical card answers well and no process uses it."""
        with self._lock:
            finished, self._finished = self._finished, []
            wanted = {physical(card) for card in faulty} | (self._asked - self._answered)
            # The caller has not seen these results yet, which may make another test unnecessary.
            wanted -= self._running | {card for card, _ in finished}
            start = [card for card in sorted(wanted) if is_free(card)][: MAX_AT_ONCE - len(self._running)]
            self._running.update(start)
        for card in start:
            self._in_background(lambda card=card: self._run(card))
        return finished

    def _run(self, card: str) -> None:
        began_s = self._clock_s()
        try:
            result = self._tester.test(card)
        except Exception as error:
            _log.exception("the self-test of card %s failed", card)
            result = TestResult(None, repr(error)[:MAX_DETAIL])
        _log.info("self-test of card %s: passed=%s, %s", card, result.passed, result.detail)
        took_s = round(self._clock_s() - began_s, 3)
        with self._lock:
            self._done[card] = asdict(result) | {"at_us": self._now_us(), "took_s": took_s}
            self._answered.add(card)
            self._finished.append((card, result))
            self._running.discard(card)


def _in_thread(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="self-test", daemon=True).start()
