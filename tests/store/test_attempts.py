"""Tests for attempt rows and the GPU usage computed from them."""

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpusquad.store import attempts
from gpusquad.store.attempts import AttemptRow, UsageRow
from tests.store.examples import SECOND_US

HOUR_US = 3600 * SECOND_US
RUN = AttemptRow("01J", 0, "physics", "ada", started_us=HOUR_US, gpu_milli=2500, cards=["n0/0", "n0/1", "n0/2"])


def test_attempt_can_be_opened_and_closed_only_once(database):
    with database.write() as c:
        assert attempts.open(c, RUN)
        assert not attempts.open(c, replace(RUN, started_us=5))
        assert attempts.of_job(c, "01J") == [RUN]
        assert attempts.close(c, "01J", 0, 2 * HOUR_US, "failed", "exit code 1")
        assert not attempts.close(c, "01J", 0, 3 * HOUR_US, "lost")
        assert not attempts.close(c, "01J", 7, 3 * HOUR_US, "lost")
        attempts.open(c, replace(RUN, attempt=1))
    closed = replace(RUN, ended_us=2 * HOUR_US, how="failed", cause="exit code 1")
    with database.read() as c:
        assert attempts.of_job(c, "01J") == [closed, replace(RUN, attempt=1)]


def test_usage_is_clipped_to_the_interval_and_the_current_time(database):
    with database.write() as c:
        attempts.open(c, RUN)  # started in hour 1 and still running
        attempts.open(c, replace(RUN, job_id="01K", user="bob", started_us=0, ended_us=4 * HOUR_US, gpu_milli=1000))
        attempts.open(c, replace(RUN, job_id="01L", tenant="maths", started_us=9 * HOUR_US))
    with database.read() as c:
        assert attempts.usage(c, "user", 2 * HOUR_US, 8 * HOUR_US, now_us=5 * HOUR_US) == [
            UsageRow("ada", 2.5 * 3 * 3600, jobs=1, attempts=1, tenant="physics"),
            UsageRow("bob", 1.0 * 2 * 3600, jobs=1, attempts=1, tenant="physics"),
        ]
        assert attempts.usage(c, "user", 2 * HOUR_US, 8 * HOUR_US, now_us=5 * HOUR_US, limit=1)[0].key == "ada"
        assert attempts.usage(c, "tenant", 0, 10 * HOUR_US, now_us=10 * HOUR_US, tenants=["maths"]) == [
            UsageRow("maths", 2.5 * 3600, jobs=1, attempts=1, tenant="maths")
        ]
        assert attempts.usage(c, "job", 0, 10 * HOUR_US, now_us=10 * HOUR_US, tenants=[]) == []


def test_urgent_usage_counts_from_the_first_urgent_time_to_the_end(database):
    with database.write() as c:
        attempts.open(c, replace(RUN, job_id="01K", started_us=0, ended_us=4 * HOUR_US, gpu_milli=1000))  # never urgent
        attempts.open(c, replace(RUN, job_id="01L", gpu_milli=250, urgent_from_us=HOUR_US))
        attempts.open(c, replace(RUN, job_id="01M", gpu_milli=2000))
        for from_us in (3 * HOUR_US, 5 * HOUR_US):
            attempts.set_urgent(c, "01M", 0, from_us)
        attempts.set_urgent(c, "01M", 1, HOUR_US)  # no such attempt
        attempts.open(c, replace(RUN, job_id="01N", tenant="maths", urgent_from_us=HOUR_US))
    with database.read() as c:
        assert attempts.of_job(c, "01M")[0].urgent_from_us == 3 * HOUR_US
        assert attempts.usage(c, "job", 0, 7 * HOUR_US, 7 * HOUR_US, ["physics"], urgent=True) == [
            attempts.UsageRow("01M", 8 * 3600.0, 1, 1, "physics"),
            attempts.UsageRow("01L", 1.5 * 3600.0, 1, 1, "physics"),
        ]  # fmt: skip
        (row,) = attempts.usage(c, "tenant", 4 * HOUR_US, 5 * HOUR_US, 7 * HOUR_US, ["physics"], urgent=True)
        assert row.gpu_s == 2.25 * 3600.0


def test_usage_of_a_large_cluster_over_years_does_not_overflow(database):
    century_us = 100 * 365 * 24 * HOUR_US
    with database.write() as c:
        for number in range(3):
            attempts.open(c, replace(RUN, attempt=number, started_us=0, ended_us=century_us, gpu_milli=10**10))
    with database.read() as c:
        (row,) = attempts.usage(c, "tenant", 0, century_us, now_us=0)
    assert row.gpu_s == pytest.approx(3 * 10**7 * century_us / SECOND_US)


times_us = st.integers(0, 20).map(lambda hours: hours * HOUR_US) | st.integers(0, 20 * HOUR_US)
attempt_lists = st.lists(
    st.builds(
        AttemptRow,
        job_id=st.sampled_from(["a", "b", "c"]),
        attempt=st.integers(0, 5),
        tenant=st.sampled_from(["physics", "maths"]),
        user=st.sampled_from(["ada", "bob"]),
        started_us=times_us,
        ended_us=st.none() | times_us,
        gpu_milli=st.integers(0, 16_000),
    ),
    max_size=12,
    unique_by=lambda row: (row.job_id, row.attempt),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    rows=attempt_lists,
    by=st.sampled_from(["tenant", "user", "job"]),
    since_us=times_us,
    until_us=times_us,
    now_us=times_us,
)
def test_usage_equals_a_sum_over_all_attempts(database, rows, by, since_us, until_us, now_us):
    with database.write() as c:
        c.execute(attempts.attempts.delete())
        for row in rows:
            attempts.open(c, row)
    with database.read() as c:
        found = attempts.usage(c, by, since_us, until_us, now_us)
    assert [row.gpu_s for row in found] == sorted((row.gpu_s for row in found), reverse=True)
    usage_by_key = {(row.key, row.tenant): (pytest.approx(row.gpu_s), row.jobs, row.attempts) for row in found}
    assert len(usage_by_key) == len(found)
    assert usage_by_key == sum_over_attempts(rows, by, since_us, until_us, now_us)


def sum_over_attempts(rows, by, since_us, until_us, now_us):
    groups = defaultdict(list)
    for row in rows:
        end_us = now_us if row.ended_us is None else row.ended_us
        held_us = min(end_us, until_us) - max(row.started_us, since_us)
        if held_us > 0:
            key = {"tenant": row.tenant, "user": row.user, "job": row.job_id}[by]
            groups[key, row.tenant].append((row.job_id, row.gpu_milli * held_us))
    return {
        group: (sum(held for _, held in runs) / 1e9, len({job_id for job_id, _ in runs}), len(runs))
        for group, runs in groups.items()
    }
