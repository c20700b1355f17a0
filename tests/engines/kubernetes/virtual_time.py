"""An event loop with virtual time: it advances at once to the next timer when no other work is left."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._now_s = 1000.0
        super().__init__(_AdvancingSelector(self))

    def time(self) -> float:
        return self._now_s

    def advance(self, by_s: float) -> None:
        self._now_s += by_s


class _AdvancingSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits and nothing will ever happen")
        self._loop.advance(timeout)
        return super().select(0)


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
