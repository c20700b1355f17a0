"""Reports arrive, in order, whatever their taker does."""

from __future__ import annotations

import threading

import pytest

from gpusquad.core.ports import AttemptEnded, AttemptStarted, Report
from gpusquad.engines.local import reporter
from gpusquad.engines.local.reporter import ReportQueue
from tests.engines.harness import PATIENCE_S, Reports


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "_FIRST_PAUSE_S", 0.001)


def test_a_poisoned_report_holds_up_its_own_attempt_only() -> None:
    taken = Reports()

    def take(report: Report) -> None:
        if report.job_id == "poison":
            raise ValueError("never")
        taken(report)

    made = ReportQueue(take)
    made.start()
    made.send(AttemptStarted("poison", 0, ()))
    for number in range(10):
        made.send(AttemptStarted(f"job{number}", 0, ()))
    for number in range(10):
        taken.started(f"job{number}")
    made.close()


def test_order_is_kept_over_failures() -> None:
    taken = Reports()
    failures = iter([True, True, True, False, True, False])

    def take(report: Report) -> None:
        if next(failures, False):
            raise RuntimeError("not now")
        taken(report)

    made = ReportQueue(take)
    made.start()
    made.send(AttemptStarted("job", 0, ()))
    made.send(AttemptEnded("job", 0, "succeeded", ""))
    taken.ended("job")
    made.close()
    assert [type(report) for report in taken.all] == [AttemptStarted, AttemptEnded]


def test_receiver_may_close_the_queue() -> None:
    closed = threading.Event()
    made: list[ReportQueue] = []

    def take(report: Report) -> None:
        made[0].close()
        closed.set()

    made.append(ReportQueue(take))
    made[0].start()
    made[0].send(AttemptStarted("job", 0, ()))
    assert closed.wait(PATIENCE_S)
