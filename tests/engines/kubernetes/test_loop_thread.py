"""Other threads hand work to the loop and get its results; nothing is left when it closes."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Iterator

import pytest

from gpusquad.engines.kubernetes.client.loop_thread import LoopThread

PATIENCE_S = 20.0


@pytest.fixture
def hub() -> Iterator[LoopThread]:
    made = LoopThread()
    yield made
    made.close()


async def thread_name() -> str:
    return threading.current_thread().name


async def for_ever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise KeyError("oops")


def test_work_is_done_in_the_loops_thread_and_its_result_comes_back(hub: LoopThread):
    assert hub.submit(thread_name()).result(PATIENCE_S) == "gpusquad-kubernetes"


def test_an_error_is_the_callers(hub: LoopThread):
    with pytest.raises(KeyError, match="oops"):
        hub.submit(fail()).result(PATIENCE_S)


def test_closing_cancels_and_waits_then_closes_the_last_opened_first():
    hub, order = LoopThread(), list[str]()
    began = threading.Event()

    async def work() -> None:
        began.set()
        try:
            await for_ever()
        finally:
            order.append("work ended")

    async def closer(name: str) -> None:
        order.append(name)

    future = hub.submit(work())
    hub.on_close(lambda: closer("first"))
    hub.on_close(lambda: closer("second"))
    assert began.wait(PATIENCE_S)
    hub.close()
    assert order == ["work ended", "second", "first"]
    assert future.cancelled()
    hub.close()
    with pytest.raises(RuntimeError, match="has been closed"):
        hub.submit(for_ever())


@pytest.mark.parametrize("broken", [fail, thread_name])
def test_what_should_run_for_ever_and_does_not_is_told(broken: object, caplog: pytest.LogCaptureFixture):
    told: concurrent.futures.Future[BaseException] = concurrent.futures.Future()
    hub = LoopThread(on_broken=told.set_result)
    try:
        hub.keep(broken(), "the pods")  # type: ignore[operator]
        error = told.result(PATIENCE_S)
    finally:
        hub.close()
    assert isinstance(error, KeyError if broken is fail else RuntimeError)
    assert "the pods failed" in caplog.text


def test_what_is_cancelled_by_closing_is_not_broken(caplog: pytest.LogCaptureFixture):
    told: list[BaseException] = []
    hub = LoopThread(on_broken=told.append)
    hub.keep(for_ever(), "the pods")
    hub.close()
    assert told == []
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_it_may_be_closed_from_its_own_thread():
    """As by somebody who hears that it failed."""
    hub = LoopThread(on_broken=lambda error: hub.close())
    hub.keep(fail(), "the pods")
    hub.close()


def test_a_closer_that_fails_keeps_nobody(caplog: pytest.LogCaptureFixture):
    hub = LoopThread()
    hub.on_close(fail)
    hub.close()
    assert "oops" in caplog.text
