"""Tests of the event loop thread: other threads submit work and get results; closing leaves nothing running."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Iterator

import pytest

from gpusquad.engines.kubernetes.client.loop_thread import LoopThread

TIMEOUT_S = 20.0


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    created = LoopThread()
    yield created
    created.close()


async def thread_name() -> str:
    return threading.current_thread().name


async def run_forever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise KeyError("oops")


def test_submitted_work_runs_in_the_loop_thread_and_returns_its_result(loop_thread: LoopThread):
    assert loop_thread.submit(thread_name()).result(TIMEOUT_S) == "gpusquad-kubernetes"


def test_error_is_raised_in_the_caller(loop_thread: LoopThread):
    with pytest.raises(KeyError, match="oops"):
        loop_thread.submit(fail()).result(TIMEOUT_S)


def test_close_cancels_work_then_runs_closers_in_reverse_order():
    loop_thread, order = LoopThread(), list[str]()
    started = threading.Event()

    async def work() -> None:
        started.set()
        try:
            await run_forever()
        finally:
            order.append("work ended")

    async def closer(name: str) -> None:
        order.append(name)

    future = loop_thread.submit(work())
    loop_thread.on_close(lambda: closer("first"))
    loop_thread.on_close(lambda: closer("second"))
    assert started.wait(TIMEOUT_S)
    loop_thread.close()
    assert order == ["work ended", "second", "first"]
    assert future.cancelled()
    loop_thread.close()
    with pytest.raises(RuntimeError, match="has been closed"):
        loop_thread.submit(run_forever())


@pytest.mark.parametrize("broken", [fail, thread_name])
def test_end_of_permanent_work_is_reported_and_logged(broken: object, caplog: pytest.LogCaptureFixture):
    failure: concurrent.futures.Future[BaseException] = concurrent.futures.Future()
    loop_thread = LoopThread(on_broken=failure.set_result)
    try:
        loop_thread.keep(broken(), "the pods")  # type: ignore[operator]
        error = failure.result(TIMEOUT_S)
    finally:
        loop_thread.close()
    assert isinstance(error, KeyError if broken is fail else RuntimeError)
    assert "the pods failed" in caplog.text


def test_work_cancelled_by_close_is_not_reported_as_failed(caplog: pytest.LogCaptureFixture):
    errors: list[BaseException] = []
    loop_thread = LoopThread(on_broken=errors.append)
    loop_thread.keep(run_forever(), "the pods")
    loop_thread.close()
    assert errors == []
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_loop_thread_can_be_closed_from_its_own_thread():
    """As a failure callback may do."""
    loop_thread = LoopThread(on_broken=lambda error: loop_thread.close())
    loop_thread.keep(fail(), "the pods")
    loop_thread.close()


def test_failing_closer_is_logged_and_does_not_block_close(caplog: pytest.LogCaptureFixture):
    loop_thread = LoopThread()
    loop_thread.on_close(fail)
    loop_thread.close()
    assert "oops" in caplog.text
