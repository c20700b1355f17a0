"""SchedulerLoop: the scheduler's thread and its callers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from gpusquad.server.errors import Unavailable
from gpusquad.server.services.runtime.loop import Burst, Item, SchedulerLoop, ServiceStopping

WAIT_S = 10


class BlockablePass:
    """A loop whose passes can be blocked before and after their items are handled."""

    def __init__(self, burst: Burst | None = None) -> None:
        self.may_start, self.may_end, self.handled = threading.Event(), threading.Event(), threading.Event()
        self.may_start.set()
        self.may_end.set()
        self.raises = False
        self.batches: list[int] = []
        """Number of items of each pass that had some."""
        self.loop = SchedulerLoop(self._pass, burst)

    def _pass(self, items: Sequence[Item]) -> float | None:
        self.may_start.wait(WAIT_S)
        finishes = [item() for item in items]
        self.batches += [len(items)] if items else []
        self.handled.set()
        self.may_end.wait(WAIT_S)
        if self.raises:
            raise ServiceStopping("broken")
        for finish in finishes:
            if finish is not None:
                finish()
        return None


@pytest.fixture
def passes() -> Iterator[BlockablePass]:
    made = BlockablePass()
    yield made
    made.may_start.set()
    made.may_end.set()
    made.loop.close()


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


def test_call_returns_the_result_or_raises_the_exception(passes: BlockablePass) -> None:
    passes.loop.start()
    assert passes.loop.call(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        passes.loop.call(lambda: 1 / 0)


def test_call_that_times_out_before_its_start_is_never_executed(passes: BlockablePass) -> None:
    done: list[str] = []
    passes.may_start.clear()
    passes.loop.start()
    passes.loop.post(lambda: None)
    with pytest.raises(Unavailable, match="nothing was changed"):
        passes.loop.call(lambda: done.append("late"), timeout_s=0.01)
    passes.may_start.set()
    assert passes.loop.call(lambda: len(done)) == 0


def test_call_that_times_out_during_execution_is_reported_as_in_progress(passes: BlockablePass) -> None:
    done: list[str] = []
    answered = threading.Event()

    def slowly() -> None:
        answered.wait(WAIT_S)
        done.append("in the end")

    passes.loop.start()
    with pytest.raises(Unavailable, match="in progress"):
        passes.loop.call(slowly, timeout_s=1)
    answered.set()
    assert passes.loop.call(lambda: list(done)) == ["in the end"]


@pytest.mark.parametrize("raises", [False, True])
def test_callers_get_an_error_when_the_thread_ends(
    passes: BlockablePass, callers: ThreadPoolExecutor, raises: bool
) -> None:
    passes.may_end.clear()
    passes.loop.start()
    passes.handled.wait(WAIT_S)
    answer = callers.submit(passes.loop.call, lambda: None, 1000)
    while not passes.loop._futures:
        pass
    passes.raises = raises
    if not raises:
        passes.loop.close(timeout_s=0)
    passes.may_end.set()
    with pytest.raises(ServiceStopping):
        answer.result(WAIT_S)
    with pytest.raises(ServiceStopping):
        passes.loop.call(lambda: None)


# -- bursts ---------------------------------------------------------------------------------------------------------


def test_burst_ends_when_nothing_arrived_for_a_while() -> None:
    burst = Burst(quiet_s=0.1, longest_s=0.5)
    assert burst.left_s(5.0) == 0.0, "nothing to wait for"
    burst.arrive(10.0)
    assert burst.left_s(10.0) == pytest.approx(0.1)
    burst.arrive(10.05)
    assert burst.left_s(10.05) == pytest.approx(0.1)
    assert burst.left_s(10.2) == 0.0
    burst.end()
    assert burst.left_s(10.05) == 0.0


def test_burst_is_not_waited_for_longer_than_its_limit() -> None:
    burst = Burst(quiet_s=0.1, longest_s=0.5)
    for step in range(6):
        burst.arrive(10 + step * 0.09)
    assert burst.left_s(10.45) == pytest.approx(0.05)
    assert burst.left_s(10.51) == 0.0


def test_burst_goes_on_while_a_submission_is_being_accepted() -> None:
    burst = Burst(quiet_s=0.1, longest_s=0.5)
    burst.arrive(10.0)
    burst.coming = 1
    assert burst.left_s(10.3) == pytest.approx(0.2)
    assert burst.left_s(10.6) == 0.0
    burst.coming = 0
    assert burst.left_s(10.3) == 0.0


def test_burst_of_submissions_is_one_pass_that_a_caller_ends() -> None:
    passes = BlockablePass(Burst(quiet_s=WAIT_S * 10, longest_s=WAIT_S * 10))
    passes.loop.start()
    for _ in range(3):
        with passes.loop.arriving() as post:
            post(lambda: None)
    assert passes.loop.call(lambda: "answer") == "answer"
    assert passes.batches == [4]
    passes.loop.close()


def test_pass_follows_by_itself_when_a_burst_has_ended() -> None:
    passes, handled = BlockablePass(Burst(quiet_s=0.01)), threading.Event()
    passes.loop.start()
    with passes.loop.arriving() as post:
        post(handled.set)
    assert handled.wait(WAIT_S)
    passes.loop.close()


def test_submission_that_fails_is_not_waited_for() -> None:
    passes = BlockablePass(Burst(quiet_s=0.01, longest_s=WAIT_S * 10))
    passes.loop.start()
    with suppress(ZeroDivisionError), passes.loop.arriving() as post:
        post(lambda: None)
        raise ZeroDivisionError
    assert passes.handled.wait(WAIT_S)
    passes.loop.close()
