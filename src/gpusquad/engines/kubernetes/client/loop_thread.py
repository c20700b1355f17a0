"""A thread with the event loop of all API clients. Other threads submit work to it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

_log = logging.getLogger(__name__)
_CLOSE_S = 5.0
"""Tasks that ignore their cancellation are abandoned after this time."""

T = TypeVar("T")


class LoopThread:
    """Runs from its construction until it is closed.

    `on_broken` is called in the loop thread when a task that should never end has ended. What it kept up to date is
    then outdated, so its owner should stop deciding.
    """

    def __init__(
        self, name: str = "gpusquad-kubernetes", on_broken: Callable[[BaseException], None] | None = None
    ) -> None:
        self._on_broken = on_broken
        self._loop = _new_loop()
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._lock = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """From any thread. The future has the result or the error. Do not wait for it in the loop thread."""
        with self._lock:
            if not self._closing:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise RuntimeError("the connection to the API server has been closed")

    def keep(self, work: Coroutine[Any, Any, Any], name: str) -> concurrent.futures.Future[None]:
        """From any thread: runs in the background until the loop ends. If it ends by itself, `on_broken` is called."""
        kept = self.submit(self._kept(work, name))
        kept.add_done_callback(lambda _: work.close())  # it may have been cancelled before it started
        return kept

    def on_close(self, closer: Callable[[], Awaitable[None]]) -> None:
        """Awaited after all tasks have ended, in reverse order of registration."""
        self._closers.append(closer)

    def close(self) -> None:
        """Cancels all tasks and waits for their end. Further calls do nothing."""
        with self._lock:
            first, self._closing = not self._closing, True
            if first:
                self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    async def _kept(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        try:
            await work
            raise RuntimeError(f"{name} ended unexpectedly")
        except Exception as error:
            _log.exception("%s failed", name)
            if self._on_broken is not None:
                self._on_broken(error)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._end())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=_CLOSE_S)
            for task in stuck:
                _log.warning("%s does not end", task.get_coro())
        for closer in reversed(self._closers):
            try:
                await asyncio.wait_for(closer(), _CLOSE_S)
            except Exception:
                _log.exception("closing the connection to the API server")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
