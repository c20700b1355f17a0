"""The scheduler's thread: one inbox, handled in turns, woken by events and by the next instant that matters."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

Finish = Callable[[], None]
Item = Callable[[], Finish | None]
"""Done inside a turn; what it returns is called when the turn's changes are on record."""
Result = TypeVar("Result")
MOST_A_TURN = 1000
"""Items handled before a cycle decides: a burst is one cycle, and no burst holds off decisions for ever."""


class Closed(RuntimeError):
    """The service is stopping."""


class Loop:
    """Runs items in its own thread, one turn after another."""

    def __init__(self, turn: Callable[[Sequence[Item]], float | None]) -> None:
        self._turn = turn
        """Handles a batch and says in how many seconds to come again with nothing; None: only when called."""
        self._inbox: deque[Item] = deque()
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
        """Have it done in the next turn."""
        with self._woken:
            self._inbox.append(item)
            self._woken.notify()

    def call(self, do: Callable[[], Result], timeout_s: float = 30.0) -> Result:
        """Have it done in the scheduler's thread, and wait for what it returns or raises."""
        if threading.current_thread() is self._thread:
            return do()
        if self._thread.ident is None:
            return self._call_inline(do)
        if self._closing:
            raise Closed("the service is stopping")
        future: Future[Result] = Future()
        self.post(lambda: _settle(future, do))
        return future.result(timeout_s)

    def run_turn(self) -> float | None:
        """One turn in the caller's thread, for as long as the loop's own was never started: tests in virtual time."""
        return self._turn(self._take())

    def _call_inline(self, do: Callable[[], Result]) -> Result:
        future: Future[Result] = Future()
        self.post(lambda: _settle(future, do))
        self.run_turn()
        return future.result(0)

    def pause(self, seconds: float) -> bool:
        """Inside a turn: wait, but not past the end of the service. Says whether to go on."""
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
            return [self._inbox.popleft() for _ in range(min(len(self._inbox), MOST_A_TURN))]

    def _run(self) -> None:
        wait_s: float | None = 0.0
        while True:
            with self._woken:
                self._woken.wait_for(lambda: self._inbox or self._closing, wait_s)
                if self._closing:
                    return
            try:
                wait_s = self._turn(self._take())
            except Closed:
                return


def _settle(future: Future, do: Callable[[], object]) -> Finish:
    """The caller hears of it only when it is on record."""
    try:
        result = do()
    except Exception as error:
        refused = error  # the name of an except clause ends with it
        return lambda: future.set_exception(refused)
    return lambda: future.set_result(result)
