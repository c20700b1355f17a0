"""Tests for trimming old rows."""

from gpusquad.store import events, forecasts, jobs, notices, samples
from gpusquad.store.forecasts import ForecastRow
from gpusquad.store.samples import SampleRow
from gpusquad.store.trim import TrimCounts, trim
from tests.store.examples import job


def fill(c):
    """Adds three jobs: ended long ago, ended recently, unfinished. Each has an old event and a recent one."""
    jobs.insert(c, [job(1, ended_us=90), job(2, ended_us=200), job(3)])
    for at_us in (50, 150):
        for number in (1, 2, 3):
            events.append(c, job(number).id, at_us, "tick", "running", 0)
    samples.append(c, 50, [SampleRow("n0/0")])
    samples.append(c, 150, [SampleRow("n0/0")])
    for number in (1, 2, 3):
        forecasts.add(c, ForecastRow(job(number).id, 10, 60, 70))
    forecasts.settle(c, job(2).id, 80)
    rule_id = notices.add_rule(c, "ada", [], "json://host", "", 0)
    for state in ("sent", "dead", "waiting"):
        notice_id = notices.add(c, rule_id, job(1).id, "tick", "", "", 50)
        if state != "waiting":
            notices.sent(c, notice_id) if state == "sent" else notices.failed(c, notice_id, "", None)


def test_trim_removes_only_old_rows_that_are_no_longer_needed(database):
    with database.write() as c:
        fill(c)
        assert trim(c, events_before_us=100, samples_before_us=100) == TrimCounts(1, 1, 2, 2)
        assert [(row.job_id, row.at_us) for row in events.after(c, 0)] == [
            (job(2).id, 50),
            (job(3).id, 50),
            (job(1).id, 150),
            (job(2).id, 150),
            (job(3).id, 150),
        ]
        assert [row.at_us for row in samples.of_card(c, "n0/0", 0, 1000)] == [150]
        assert [row.state for row in notices.outbox(c).items] == ["waiting"]
        assert [len(forecasts.of_job(c, job(number).id)) for number in (1, 2, 3)] == [0, 0, 1]
        assert jobs.count(c) == 3
        assert not trim(c, events_before_us=100, samples_before_us=100)


def test_trim_removes_old_rows_in_small_batches(database):
    with database.write() as c:
        fill(c)
        steps = 0
        while trim(c, 10**9, 10**9, most=1):
            steps += 1
        assert steps == 4
        assert {row.job_id for row in events.after(c, 0)} == {job(3).id}
        assert samples.of_card(c, "n0/0", 0, 1000) == []


def test_trim_of_an_empty_database_removes_nothing(database):
    with database.write() as c:
        assert not trim(c, 10**9, 10**9)
