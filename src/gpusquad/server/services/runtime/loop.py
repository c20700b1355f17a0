"""The scheduler's thread: one inbox, handled in batches, woken by items and by the next due time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from gpusquad.server.errors import Unavailable

Finish = Callable[[], None]
Item = Callable[[], Finish | None]
"""Runs inside a pass. What it returns is called after the pass is committed."""
Result = TypeVar("Result")
MAX_ITEMS_PER_PASS = 1000
"""Items handled before a cycle: a burst costs one cycle, and a longer burst cannot delay decisions indefinitely."""


@dataclass(slots=True)
class Burst:
    """Submissions that should be decided together, although each comes in its own request."""

    quiet_s: float = 0.1
    """The burst has ended when nothing arrived for this long. A job that comes alone waits so long."""
    longest_s: float = 0.5
    """A burst is not waited for longer than this."""
    coming: int = 0
    """Submissions that are being accepted."""
    _first_s: float | None = None
    _last_s: float = 0.0

    def arrive(self, now_s: float) -> None:
        self._first_s = now_s if self._first_s is None else self._first_s
        self._last_s = now_s

    def left_s(self, now_s: float) -> float:
        """How long to wait for more. 0: it has ended, or there is none."""
        if self._first_s is None:
            return 0.0
        end_s = self._first_s + self.longest_s
        return max(0.0, (end_s if self.coming else min(end_s, self._last_s + self.quiet_s)) - now_s)

    def end(self) -> None:
        self._first_s = None


class ServiceStopping(RuntimeError):
    """The service is stopping."""


class SchedulerLoop:
    """Runs items in its own thread, one pass after another."""

    def __init__(self, unit: Callable[[Sequence[Item]], float | None], burst: Burst | None = None) -> None:
        self._run_batch = unit
        """Handles a batch and returns the seconds until the next call without items. None: only when there are
        items."""
        self._inbox: deque[Item] = deque()
        self._burst = burst or Burst()
        self._is_called = False
        """Whether a caller waits for the next pass."""
        self._futures: set[Future] = set()
        """Futures of callers that wait."""
        self._woken = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def closing(self) -> bool:
        return self._closing

    def post(self, item: Item) -> None:
        """Run the item in the next pass."""
        with self._woken:
            self._inbox.append(item)
            self._woken.notify()

    @contextmanager
    def arriving(self) -> Iterator[Callable[[Item], None]]:
        """Accept a submission that may be one of a burst. The next pass waits for the burst to end, so that its jobs
        are decided together, unless a caller waits. Yields a ``post``."""

        def post(item: Item) -> None:
            with self._woken:
                self._burst.arrive(time.monotonic())
                self.post(item)

        with self._woken:
            self._burst.coming += 1
        try:
            yield post
        finally:
            with self._woken:
                self._burst.coming -= 1
                self._woken.notify()

    def call(self, do: Callable[[], Result], timeout_s: float = 30.0) -> Result:
        """Run ``do`` in the scheduler's thread and return its result or raise its exception.

        On a timeout the error says whether ``do`` was withdrawn, or is running and not committed yet.
        """
        if threading.current_thread() is self._thread:
            return do()
        if self._thread.ident is None:
            return self._call_inline(do)
        future = self._ask(do)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            if future.cancel():
                raise Unavailable("the scheduler is busy; nothing was changed", wait_s=2.0) from None
            raise Unavailable("the change is in progress and not stored yet; check before you retry", 2.0) from None

    def run_pass(self) -> float | None:
        """One pass in the caller's thread. Only valid if the loop was never started: tests in virtual time."""
        return self._run_batch(self._take())

    def _ask(self, do: Callable[[], Result]) -> Future[Result]:
        future: Future[Result] = Future()
        future.add_done_callback(self._futures.discard)
        with self._woken:
            if self._closing or not self._thread.is_alive():
                raise ServiceStopping("the service is stopping")
            self._futures.add(future)
            self._inbox.append(lambda: _settle(future, do))
            self._is_called = True
            self._woken.notify()
        return future

    def _call_inline(self, do: Callable[[], Result]) -> Result:
        future: Future[Result] = Future()
        self.post(lambda: _settle(future, do))
        self.run_pass()
        return future.result(0)

    def pause(self, seconds: float) -> bool:
        """Wait inside a pass, but not past the end of the service. Returns whether to continue."""
        with self._woken:
            if not self._closing:
                self._woken.wait_for(lambda: self._closing, seconds)
            return not self._closing

    def close(self, timeout_s: float = 10.0) -> None:
        with self._woken:
            self._closing = True
            self._woken.notify_all()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)

    def _take(self) -> list[Item]:
        with self._woken:
            self._burst.end()
            self._is_called = False
            return [self._inbox.popleft() for _ in range(min(len(self._inbox), MAX_ITEMS_PER_PASS))]

    def _run(self) -> None:
        wait_s: float | None = 0.0
        try:
            while self._wait(wait_s):
                self._wait_for_burst()
                wait_s = self._run_batch(self._take())
        except ServiceStopping:
            pass
        finally:
            self._answer_all(ServiceStopping("the service is stopping"))

    def _wait(self, seconds: float | None) -> bool:
        """Wait for an item, at most this long. Returns whether to continue."""
        with self._woken:
            self._woken.wait_for(lambda: self._inbox or self._closing, seconds)
            return not self._closing

    def _wait_for_burst(self) -> None:
        with self._woken:
            while (left_s := self._burst.left_s(time.monotonic())) > 0 and not (self._is_called or self._closing):
                self._woken.wait(left_s)

    def _answer_all(self, error: Exception) -> None:
        """Fail all waiting calls, because the thread has ended."""
        with self._woken:
            self._closing = True
        for future in list(self._futures):
            with suppress(InvalidStateError):
                future.set_exception(error)


def _settle(future: Future, do: Callable[[], object]) -> Finish | None:
    """The caller gets the result only after it is committed."""
    if not future.set_running_or_notify_cancel():
        return None  # the caller has given up
    try:
        result = do()
    except Exception as error:
        refused = error  # Python unbinds the name at the end of the except clause
        return lambda: future.set_exception(refused)
    return lambda: future.set_result(result)
