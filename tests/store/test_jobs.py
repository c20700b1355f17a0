"""Tests for job rows: storage, filters and paging."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpusquad.core.transitions import JobState
from gpusquad.model.errors import Invalid
from gpusquad.store import jobs
from gpusquad.store.jobs import JobFilter
from tests.store.examples import SECOND_US, job

FULL = job(
    1,
    queue="night",
    group_id="01JG",
    state="running",
    attempt=3,
    priority="high",
    lane="batch",
    started_us=5,
    ended_us=2**62,
    release_us=7,
    kept_us=8,
    served_gpu_us=2**60,
    preemptions=2,
    retries_left=1,
    cause="preempted by 01K",
    forecast={"mid_us": 1, "high_us": 2, "source": "history"},
    after=[{"job": "01J0", "on": "success"}],
    placement={"tasks": [{"node": "n0", "cards": ["n0/0"]}], "parts": []},
    result={"task": 0, "exit_code": 1, "signal": None, "oom": False},
    progress={"step": 1, "total": None},
    stop={"how": "cancelled", "cause": "by ada"},
)


def test_job_round_trips_unchanged(database):
    with database.write() as c:
        jobs.insert(c, [FULL, job(2)])
        jobs.insert(c, [])
    with database.read() as c:
        assert jobs.get(c, FULL.id) == FULL
        assert jobs.get(c, job(2).id) == job(2)
        assert jobs.get(c, "none") is None


def test_job_states_are_stored_as_text(database):
    with database.write() as c:
        jobs.insert(c, [job(1, state=JobState.RUNNING), job(2)])
        jobs.change(c, job(2).id, state=JobState.LOST)
    with database.read() as c:
        found = jobs.find(c, JobFilter(states={JobState.RUNNING, JobState.LOST})).items
        assert [(type(row.state), row.state) for row in found] == [(str, "lost"), (str, "running")]
        assert jobs.count(c, JobFilter(states=frozenset({JobState.LOST}))) == 1


def test_change_updates_only_the_given_columns(database):
    with database.write() as c:
        jobs.insert(c, [FULL, job(2)])
        jobs.change(c, FULL.id, state="succeeded", stop=None, result={"exit_code": 0})
        jobs.change(c, FULL.id)
    with database.read() as c:
        assert jobs.get(c, FULL.id) == replace(FULL, state="succeeded", stop=None, result={"exit_code": 0})
        assert jobs.get(c, job(2).id) == job(2)


@pytest.mark.parametrize("columns", [{"colour": 1}, {"id": "other"}])
def test_change_of_an_unknown_or_fixed_column_is_refused(database, columns):
    with pytest.raises(TypeError), database.write() as c:
        jobs.change(c, "a", **columns)


def test_change_of_a_missing_job_is_refused(database):
    with pytest.raises(KeyError), database.write() as c:
        jobs.change(c, "none", state="running")


def test_unfinished_jobs_are_listed_in_order_of_arrival(database):
    states = (*jobs.UNFINISHED_STATES, *jobs.FINAL_STATES)
    rows = [job(number, state=state, sequence=100 - number) for number, state in enumerate(states)]
    with database.write() as c:
        jobs.insert(c, rows)
    with database.read() as c:
        assert [row.state for row in jobs.unfinished(c)] == list(reversed(jobs.UNFINISHED_STATES))


def test_next_sequence_follows_the_largest_stored_one(database):
    with database.write() as c:
        assert jobs.next_sequence(c) == 1
        jobs.insert(c, [job(1, sequence=41)])
        assert jobs.next_sequence(c) == 42


def test_jobs_of_a_group_are_listed_in_order_of_arrival(database):
    with database.write() as c:
        jobs.insert(c, [job(1, group_id="g", sequence=9), job(2, group_id="g"), job(3)])
        assert [row.id for row in jobs.by_group(c, "g")] == [job(2).id, job(1).id]


def test_waiting_on_lists_held_jobs_that_depend_on_a_job(database):
    first, other = {"job": job(1).id, "on": "success"}, {"job": job(2).id, "on": "any"}
    rows = [
        job(1),
        job(2),
        job(3, state="held", after=[first, other]),
        job(4, state="held", after=[first, {**first, "on": "failure"}]),
        job(5, state="pending", after=[first]),
        job(6, state="held", after=[other]),
    ]
    with database.write() as c:
        jobs.insert(c, rows)
        assert [row.id for row in jobs.waiting_on(c, job(1).id)] == [job(3).id, job(4).id]
        jobs.change(c, job(3).id, after=[other])
        jobs.change(c, job(4).id, state="pending")
        assert jobs.waiting_on(c, job(1).id) == []
        assert [row.id for row in jobs.waiting_on(c, job(2).id)] == [job(3).id, job(6).id]


def test_jobs_are_found_by_id_prefix(database):
    ids = ["01JABC", "01JABD", "01JB", "01jabc"]
    with database.write() as c:
        jobs.insert(c, [job(number, id=id_) for number, id_ in enumerate(ids)])
        assert [row.id for row in jobs.by_prefix(c, "01JA")] == ["01JABC", "01JABD"]
        assert [row.id for row in jobs.by_prefix(c, "01JABD")] == ["01JABD"]
        assert jobs.by_prefix(c, "%") == []


MIXED = [
    job(1, name="Alpha", state="running", tenant="physics", user="ada"),
    job(2, name="beta_1", state="succeeded", tenant="physics", user="bob", ended_us=30 * SECOND_US),
    job(3, name="beta%1", state="failed", tenant="maths", user="ada", ended_us=20 * SECOND_US, cause="Out of memory"),
    job(4, name="gamma", state="pending", tenant="maths", user="eve", group_id="g"),
    job(5, name="gamma", state="cancelled", tenant="arts", user="eve", group_id="g", ended_us=20 * SECOND_US),
]


@pytest.mark.parametrize(
    ("where", "numbers"),
    [
        (JobFilter(), [5, 4, 3, 2, 1]),
        (JobFilter(sort="submitted"), [1, 2, 3, 4, 5]),
        (JobFilter(sort="-ended"), [2, 5, 3]),
        (JobFilter(states=["running", "pending"]), [4, 1]),
        (JobFilter(states=["running"]), [1]),
        (JobFilter(states=[]), []),
        (JobFilter(tenants=["physics", "arts"], sort="submitted"), [1, 2, 5]),
        (JobFilter(tenants=[]), []),
        (JobFilter(users=["ada"]), [3, 1]),
        (JobFilter(users=["ada"], tenants=["maths"], states=["failed", "running"]), [3]),
        (JobFilter(name="gamma"), [5, 4]),
        (JobFilter(name="gam"), []),
        (JobFilter(group_id="g"), [5, 4]),
        (JobFilter(text="ALPHA"), [1]),
        (JobFilter(text="beta_"), [2]),
        (JobFilter(text="%"), [3]),
        (JobFilter(text="memory"), [3]),
        (JobFilter(text=""), [5, 4, 3, 2, 1]),
        (JobFilter(text=MIXED[3].id), [4]),
        (JobFilter(since_us=2 * SECOND_US, until_us=4 * SECOND_US), [3, 2]),
        (JobFilter(since_us=20 * SECOND_US, until_us=30 * SECOND_US, sort="-ended"), [5, 3]),
    ],
)
def test_filter_finds_counts_and_pages_the_matching_jobs(database, where, numbers):
    with database.write() as c:
        jobs.insert(c, MIXED)
    ids = [job(number).id for number in numbers]
    with database.read() as c:
        assert [row.id for row in jobs.find(c, where).items] == ids
        assert jobs.count(c, where) == len(ids)
        assert sum(jobs.count_by_state(c, where).values()) == len(ids)
        assert list(pages(c, where, 1)) == ids
        assert list(pages(c, where, 2)) == ids


def pages(c, where, limit):
    """Yields all job IDs, reading one page at a time."""
    cursor, more = None, True
    while more:
        page = jobs.find(c, where, limit, cursor)
        yield from (row.id for row in page.items)
        assert len(page.items) == limit or page.next_cursor is None
        cursor, more = page.next_cursor, page.next_cursor is not None


def test_jobs_are_counted_by_state(database):
    with database.write() as c:
        jobs.insert(c, [*MIXED, job(6)])
        assert jobs.count_by_state(c, JobFilter(tenants=["physics"])) == {"running": 1, "succeeded": 1, "pending": 1}


@pytest.mark.parametrize("cursor", ["", "x", "!!", "bnVsbA", "WzFd", "\0", "é", "W" * 100_000])
def test_invalid_cursor_is_refused(database, cursor):
    with pytest.raises(Invalid, match="cursor"), database.read() as c:
        jobs.find(c, JobFilter(), 10, cursor)


def test_cursor_of_another_sort_order_is_refused(database):
    with database.write() as c:
        jobs.insert(c, MIXED)
        cursor = jobs.find(c, JobFilter(), 1).next_cursor
        with pytest.raises(Invalid, match="-submitted"):
            jobs.find(c, JobFilter(sort="submitted"), 1, cursor)


def test_unknown_sort_order_is_refused(database):
    with pytest.raises(Invalid, match="colour"), database.read() as c:
        jobs.find(c, JobFilter(sort="colour"))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("sort", ["-submitted", "submitted", "-ended"])
def test_paging_is_stable_while_jobs_are_inserted(database, sort):
    """Every job of the start is listed exactly once, although jobs are inserted before, between and after them."""
    old = [job(2 * number, submitted_us=number // 7, ended_us=number // 5) for number in range(3000)]
    with database.write() as c:
        jobs.insert(c, old)
    seen: list[str] = []
    cursor, number = None, 1
    while True:
        with database.write() as c:
            page = jobs.find(c, JobFilter(sort=sort), 130, cursor)
            seen += [row.id for row in page.items]
            if page.next_cursor is None:
                break
            cursor = page.next_cursor
            new = [job(number + offset, submitted_us=offset % 450, ended_us=offset % 600) for offset in range(0, 40, 2)]
            jobs.insert(c, [replace(row, id=row.id + "N") for row in new])
            number += 40
    assert len(seen) == len(set(seen))
    old_ids = {row.id for row in old}
    times = {row.id: (row.ended_us if sort == "-ended" else row.submitted_us, row.id) for row in old}
    assert [id_ for id_ in seen if id_ in old_ids] == sorted(old_ids, key=times.__getitem__, reverse=sort[0] == "-")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=40)
@given(
    times=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["pending", "failed", "held"])), max_size=25),
    limit=st.integers(1, 7),
    sort=st.sampled_from(["-submitted", "submitted"]),
    states=st.none() | st.sets(st.sampled_from(["pending", "failed", "lost"])).map(sorted),
)
def test_pages_together_equal_the_sorted_list(database, times, limit, sort, states):
    rows = [job(number, submitted_us=time_us, state=state) for number, (time_us, state) in enumerate(times)]
    with database.write() as c:
        c.execute(jobs.jobs.delete())
        jobs.insert(c, rows)
    expected = sorted((row.submitted_us, row.id) for row in rows if states is None or row.state in states)
    if sort == "-submitted":
        expected.reverse()
    with database.read() as c:
        assert list(pages(c, JobFilter(states=states, sort=sort), limit)) == [id_ for _, id_ in expected]


@pytest.mark.parametrize(
    "where",
    [
        JobFilter(),
        JobFilter(sort="submitted"),
        JobFilter(sort="-ended"),
        JobFilter(tenants=["physics"]),
        JobFilter(users=["ada"]),
        JobFilter(states=["pending"]),
        JobFilter(name="a"),
        JobFilter(group_id="g"),
    ],
)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_pages_are_read_from_a_covering_index(database, where):
    """The query plan neither scans the table nor sorts more than the page."""
    statements: list[str] = []
    with database.read() as c:
        raw = c.connection.driver_connection
        raw.set_trace_callback(statements.append)
        jobs.find(c, where, 10)
        raw.set_trace_callback(None)
        query = next(line for line in statements if line.startswith("SELECT"))
        steps = [row[3] for row in c.exec_driver_sql("EXPLAIN QUERY PLAN " + query)]
    inner = steps[1 : next(number for number, step in enumerate(steps) if step.startswith("SCAN anon"))]
    assert inner
    assert all("USING COVERING INDEX" in step for step in inner), steps
