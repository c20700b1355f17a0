"""The scheduler's thread and those who wait for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpusquad.server.errors import Unavailable
from gpusquad.server.services.runtime.loop import Item, SchedulerLoop, ServiceStopping

WAIT_S = 10


class Turns:
    """A loop whose turns can be held up before and after their items are handled."""

    def __init__(self) -> None:
        self.may_begin, self.may_end, self.handled = threading.Event(), threading.Event(), threading.Event()
        self.may_begin.set()
        self.may_end.set()
        self.breaks = False
        self.loop = SchedulerLoop(self._turn)

    def _turn(self, items: Sequence[Item]) -> float | None:
        self.may_begin.wait(WAIT_S)
        finishes = [item() for item in items]
        self.handled.set()
        self.may_end.wait(WAIT_S)
        if self.breaks:
            raise ServiceStopping("broken")
        for finish in finishes:
            if finish is not None:
                finish()
        return None


@pytest.fixture
def turns() -> Iterator[Turns]:
    made = Turns()
    yield made
    made.may_begin.set()
    made.may_end.set()
    made.loop.close()


@pytest.fixture
def others() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


def test_a_call_answers_with_what_was_returned_or_raised(turns: Turns) -> None:
    turns.loop.start()
    assert turns.loop.call(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        turns.loop.call(lambda: 1 / 0)


def test_who_waits_too_long_takes_it_back_and_it_never_happens(turns: Turns) -> None:
    done: list[str] = []
    turns.may_begin.clear()
    turns.loop.start()
    turns.loop.post(lambda: None)
    with pytest.raises(Unavailable, match="nothing was changed"):
        turns.loop.call(lambda: done.append("late"), timeout_s=0.01)
    turns.may_begin.set()
    assert turns.loop.call(lambda: len(done)) == 0


def test_what_is_under_way_is_not_said_to_be_undone(turns: Turns) -> None:
    done: list[str] = []
    answered = threading.Event()

    def slowly() -> None:
        answered.wait(WAIT_S)
        done.append("in the end")

    turns.loop.start()
    with pytest.raises(Unavailable, match="in progress"):
        turns.loop.call(slowly, timeout_s=1)
    answered.set()
    assert turns.loop.call(lambda: list(done)) == ["in the end"]


@pytest.mark.parametrize("breaks", [False, True])
def test_nobody_waits_for_a_thread_that_has_ended(turns: Turns, others: ThreadPoolExecutor, breaks: bool) -> None:
    turns.may_end.clear()
    turns.loop.start()
    turns.handled.wait(WAIT_S)
    asked = others.submit(turns.loop.call, lambda: None, 1000)
    while not turns.loop._futures:
        pass
    turns.breaks = breaks
    if not breaks:
        turns.loop.close(timeout_s=0)
    turns.may_end.set()
    with pytest.raises(ServiceStopping):
        asked.result(WAIT_S)
    with pytest.raises(ServiceStopping):
        turns.loop.call(lambda: None)
