"""Tests of the report queue: reports arrive in order although the receiver fails."""

from __future__ import annotations

import threading

import pytest

from gpusquad.core.ports import AttemptEnded, AttemptStarted, Report
from gpusquad.engines.local import reporter
from gpusquad.engines.local.reporter import ReportQueue
from tests.engines.harness import TIMEOUT_S, Reports


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "_FIRST_PAUSE_S", 0.001)


def test_failing_report_delays_only_its_own_attempt() -> None:
    reports = Reports()

    def receive(report: Report) -> None:
        if report.job_id == "poison":
            raise ValueError("never")
        reports(report)

    queue = ReportQueue(receive)
    queue.start()
    queue.send(AttemptStarted("poison", 0, ()))
    for number in range(10):
        queue.send(AttemptStarted(f"job{number}", 0, ()))
    for number in range(10):
        reports.started(f"job{number}")
    queue.close()


def test_reports_keep_their_order_after_failures() -> None:
    reports = Reports()
    failures = iter([True, True, True, False, True, False])

    def receive(report: Report) -> None:
        if next(failures, False):
            raise RuntimeError("not now")
        reports(report)

    queue = ReportQueue(receive)
    queue.start()
    queue.send(AttemptStarted("job", 0, ()))
    queue.send(AttemptEnded("job", 0, "succeeded", ""))
    reports.ended("job")
    queue.close()
    assert [type(report) for report in reports.all] == [AttemptStarted, AttemptEnded]


def test_receiver_may_close_the_queue() -> None:
    closed = threading.Event()
    queues: list[ReportQueue] = []

    def receive(report: Report) -> None:
        queues[0].close()
        closed.set()

    queues.append(ReportQueue(receive))
    queues[0].start()
    queues[0].send(AttemptStarted("job", 0, ()))
    assert closed.wait(TIMEOUT_S)
