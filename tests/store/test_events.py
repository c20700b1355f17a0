"""Tests for job events."""

import pytest

from gpusquad.store import events, jobs
from gpusquad.store.events import EventRow
from tests.store.examples import job


@pytest.fixture
def database_with_events(database):
    """Six events of three jobs: the first two belong to one tenant, the third to another."""
    with database.write() as c:
        jobs.insert(c, [job(1), job(2), job(3, tenant="maths")])
        for number in range(6):
            events.append(c, job(1 + number % 3).id, number, "started", "running", 0)
    return database


def test_event_round_trips_unchanged(database):
    with database.write() as c:
        jobs.insert(c, [job(1)])
        first = events.append(c, job(1).id, 5, "submitted", "pending", 0)
        data = {"by": "01K", "numbers": [1, 2.5]}
        second = events.append(c, job(1).id, 6, "preempted", "preempting", 1, "made room", data, actor="scheduler")
        third = events.append(c, "a job that is not there", 6, "odd", "failed", 0)
    assert first < second < third
    with database.read() as c:
        assert events.after(c, 0) == [
            EventRow(first, job(1).id, 5, "submitted", "pending", 0, tenant="physics"),
            EventRow(second, job(1).id, 6, "preempted", "preempting", 1, "made room", "scheduler", data, "physics"),
            EventRow(third, "a job that is not there", 6, "odd", "failed", 0, tenant=None),
        ]


def test_events_of_a_job_are_listed_in_order(database_with_events):
    with database_with_events.read() as c:
        assert [event.at_us for event in events.of_job(c, job(2).id)] == [1, 4]
        first = events.of_job(c, job(2).id, limit=1)
        assert [event.at_us for event in first] == [1]
        assert [event.at_us for event in events.of_job(c, job(2).id, after=first[0].id)] == [4]


def test_events_are_listed_for_all_jobs_or_for_one_tenant(database_with_events):
    with database_with_events.read() as c:
        everything = events.after(c, 0)
        assert [event.at_us for event in everything] == [0, 1, 2, 3, 4, 5]
        assert [event.at_us for event in events.after(c, everything[2].id, limit=2)] == [3, 4]
        assert [event.at_us for event in events.after(c, 0, tenant="maths")] == [2, 5]
        assert events.after(c, 0, tenant="arts") == []
        assert events.last_id(c) == everything[-1].id


def test_event_id_is_never_reused(database_with_events):
    """A follower asks for events after the last ID it has seen, so a reused ID would be missed."""
    with database_with_events.write() as c:
        last = events.last_id(c)
        c.execute(events.events.delete())
        assert events.last_id(c) == 0
        assert events.append(c, job(1).id, 9, "started", "running", 0) > last
