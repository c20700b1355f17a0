"""Tests for transactions, concurrent readers and an unavailable database."""

import json
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from gpusquad.model.errors import Invalid
from gpusquad.store import events, jobs, people, settings
from gpusquad.store.database import Database, StoreUnavailable
from gpusquad.store.engines import MAX_READERS
from gpusquad.store.errors import StoreConflict
from tests.store.examples import job


def test_exception_rolls_back_the_whole_write(database):
    with database.write() as c:
        jobs.insert(c, [job(1)])
    with pytest.raises(ZeroDivisionError):
        _start_and_fail(database)
    with database.read() as c:
        assert jobs.get(c, job(1).id) == job(1)
        assert events.after(c, 0) == []


def _start_and_fail(database):
    with database.write() as c:
        jobs.change(c, job(1).id, state="running")
        events.append(c, job(1).id, 1, "started", "running", 0)
        raise ZeroDivisionError


def test_nested_write_is_refused_instead_of_deadlocking(database):
    with database.write(), pytest.raises(RuntimeError, match="inside a write"), database.write():
        pass
    with database.write() as c:
        settings.put(c, "still", "works")


def test_a_reader_cannot_write(database):
    with pytest.raises(DBAPIError, match=r"(?i)read-?only"), database.read() as c:
        settings.put(c, "a", 1)


def test_reader_sees_one_snapshot(database):
    with database.write() as c:
        settings.put(c, "a", 1)
    with database.read() as reader:
        assert settings.get(reader, "a") == 1
        with database.write() as c:
            settings.put(c, "a", 2)
        assert settings.get(reader, "a") == 1
    with database.read() as reader:
        assert settings.get(reader, "a") == 2


def test_event_follower_misses_no_event_with_concurrent_writers(database):
    """Event IDs become visible in the order in which they were assigned, with any number of writers."""
    writers, each = 4, 40
    seen: list[int] = []
    done = threading.Event()

    def write(writer):
        for number in range(each):
            with database.write() as c:
                events.append(c, f"job-{writer}", number, "tick", "running", 0)

    def follow():
        last_round = False
        while not last_round:
            last_round = done.is_set()
            with database.read() as c:
                seen.extend(event.id for event in events.after(c, seen[-1] if seen else 0))

    with ThreadPoolExecutor(writers + 1) as pool:
        follower = pool.submit(follow)
        for future in [pool.submit(write, writer) for writer in range(writers)]:
            future.result()
        done.set()
        follower.result()
    assert seen == sorted(seen)
    assert len(seen) == writers * each


CRASHES_DURING_A_WRITE = """
import os, sys
from gpusquad.store import events, jobs
from gpusquad.store.database import Database
database = Database(sys.argv[1])
for attempt in range(1, 20):
    with database.write() as c:
        jobs.change(c, sys.argv[2], state="running", attempt=attempt)
        if attempt == 7:
            os.kill(os.getpid(), 9)
        events.append(c, sys.argv[2], attempt, "started", "running", attempt)
"""


def test_crash_between_state_and_event_keeps_both_or_neither(database, database_url):
    with database.write() as c:
        jobs.insert(c, [job(1)])
    child = subprocess.run([sys.executable, "-c", CRASHES_DURING_A_WRITE, database_url, job(1).id], check=False)
    assert child.returncode == -signal.SIGKILL
    with database.read() as c:
        assert jobs.get(c, job(1).id) == job(1, state="running", attempt=6)
        assert [event.attempt for event in events.of_job(c, job(1).id)] == [1, 2, 3, 4, 5, 6]


WRITES_UNTIL_KILLED = """
import itertools, sys
from gpusquad.store import events, jobs
from gpusquad.store.database import Database
database = Database(sys.argv[1])
for attempt in itertools.count(1):
    with database.write() as c:
        jobs.change(c, sys.argv[2], state="running", attempt=attempt)
        events.append(c, sys.argv[2], attempt, "started", "running", attempt)
    print(attempt, flush=True)
"""


def test_crash_at_any_time_loses_no_committed_write(database, database_url):
    with database.write() as c:
        jobs.insert(c, [job(1)])
    command = [sys.executable, "-c", WRITES_UNTIL_KILLED, database_url, job(1).id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for _ in range(50):
            child.stdout.readline()
        child.kill()
        reported = 50 + len(child.stdout.readlines())
    with database.write() as c:
        jobs.change(c, job(1).id, cause="seen")  # waits until the server has noticed that the killed process is gone
        (row,) = jobs.unfinished(c)
        assert [event.attempt for event in events.of_job(c, job(1).id)] == list(range(1, row.attempt + 1))
    assert row.attempt in (reported, reported + 1)


def test_insert_of_an_existing_row_conflicts(database):
    with database.write() as c:
        jobs.insert(c, [job(1)])
    with pytest.raises(StoreConflict), database.write() as c:
        jobs.insert(c, [job(2), job(1)])
    with database.read() as c:
        assert jobs.count(c) == 1


def test_row_that_refers_to_a_missing_row_conflicts(database):
    with pytest.raises(StoreConflict), database.write() as c:
        people.put_user(c, people.UserRow("ada", tenant="nobody"))


@pytest.mark.parametrize("name", ["'; DROP TABLE jobs; --", "ünï🚀cödé", "%_\\/", "tab\tand\nline"])
def test_any_text_is_stored_unchanged(database, name):
    with database.write() as c:
        jobs.insert(c, [job(1, name=name), job(2)])
    for condition in ({"name": name}, {"text": name}):
        with database.read() as c:
            assert [row.name for row in jobs.find(c, jobs.JobFilter(**condition)).items] == [name]


@pytest.mark.parametrize("name", ["nul\0inside", "half a pair \ud800"])
def test_invalid_text_does_not_break_later_writes(database, name):
    """Callers refuse such text, and so does PostgreSQL. SQLite accepts the first one."""
    with suppress(Invalid), database.write() as c:
        jobs.insert(c, [job(1, name=name)])
    with database.write() as c:
        jobs.insert(c, [job(2)])
        assert jobs.get(c, job(2).id) == job(2)


@pytest.mark.parametrize("condition", [{"name": "\0"}, {"text": "\ud800"}, {"since_us": 2**70}])
def test_filter_with_an_unstorable_value_finds_nothing(database, condition):
    with suppress(Invalid), database.read() as c:
        assert jobs.find(c, jobs.JobFilter(**condition)).items == []
    with database.read() as c:
        assert jobs.count(c) == 0


def test_number_beyond_64_bits_is_refused(database):
    with pytest.raises(Invalid, match="cannot hold"), database.write() as c:
        jobs.insert(c, [job(1, submitted_us=2**63)])


def test_json_round_trips_unchanged(database):
    value = {"z": 1, "a": [1.5, None, True, "nul\0", "\ud800", 2**80, -0.0], "ünï": {"": {}}}
    with database.write() as c:
        settings.put(c, "all", value)
    with database.read() as c:
        assert json.dumps(settings.get(c, "all")) == json.dumps(value)  # compares the order of keys too


def test_nan_is_refused_in_json(database):
    with pytest.raises(Exception, match="not JSON compliant"), database.write() as c:
        settings.put(c, "a", float("nan"))


def test_errors_do_not_show_statement_parameters(database):
    with database.write() as c:
        people.put_tenant(c, people.TenantRow("physics"))
        people.put_user(c, people.UserRow("ada", "physics"))
    with pytest.raises(Exception, match="nothing_like_that") as caught, database.write() as c:
        c.execute(text("INSERT INTO nothing_like_that VALUES (:hash)"), {"hash": "swordfish"})
    assert "swordfish" not in str(caught.value)


def test_invalid_statement_is_not_reported_as_unavailable(database):
    with pytest.raises(DBAPIError), database.write() as c:
        c.execute(text("SELECT * FROM nothing_like_that"))


# -- unavailable database ------------------------------------------------------------------------------------------


def test_sqlite_write_fails_as_unavailable_when_the_disk_is_full(tmp_path):
    database = Database(tmp_path / "gpusquad.db")
    database.migrate()
    with database.write() as c:
        jobs.insert(c, [job(1)])
    with database.write() as c:
        pages = c.execute(text("PRAGMA page_count")).scalar_one()
        c.execute(text(f"PRAGMA max_page_count = {pages}"))
    with pytest.raises(StoreUnavailable, match="full"), database.write() as c:
        jobs.insert(c, [job(number) for number in range(2, 1000)])
    with database.write() as c:
        c.execute(text("PRAGMA max_page_count = 1000000"))
        assert jobs.count(c) == 1
        jobs.insert(c, [job(2)])
    database.close()


def test_sqlite_write_fails_as_unavailable_when_the_file_is_locked(tmp_path):
    path = tmp_path / "gpusquad.db"
    database = Database(path, wait_s=0.01)
    database.migrate()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"), database.write():
        pass
    with database.read() as c:
        assert jobs.count(c) == 0
    other.execute("ROLLBACK")
    with database.write() as c:
        jobs.insert(c, [job(1)])
    other.close()
    database.close()


def test_read_fails_as_unavailable_when_all_connections_are_in_use(tmp_path):
    database = Database(tmp_path / "gpusquad.db", wait_s=0.01)
    with ExitStack() as readers:
        for _ in range(MAX_READERS):
            readers.enter_context(database.read())
        with pytest.raises(StoreUnavailable, match="in use"), database.read():
            pass
        with database.write():  # the writer has its own connection
            pass
    with database.read():
        pass
    database.close()


@pytest.mark.parametrize("synchronous", ["NORMAL", "FULL"])
def test_sqlite_connections_use_the_configured_pragmas(tmp_path, synchronous):
    expected = {"journal_mode": "wal", "synchronous": {"NORMAL": 1, "FULL": 2}[synchronous], "foreign_keys": 1}
    database = Database(tmp_path / "gpusquad.db", synchronous=synchronous)
    for transaction in (database.write, database.read):
        with transaction() as c:
            actual = {name: c.execute(text(f"PRAGMA {name}")).scalar() for name in expected}
        assert actual == expected
    database.close()


CODES = {"disk_full": "53100", "too_many_connections": "53300", "deadlock": "40P01", "standby": "25006"}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_postgresql_resource_errors_are_reported_as_unavailable(database, code):
    with pytest.raises(StoreUnavailable), database.write() as c:
        c.execute(text(f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$"))


@pytest.mark.parametrize("stop_signal", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "crashed"])
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_database_recovers_after_a_postgresql_restart(database, postgresql_server, stop_signal):
    database.own()
    with database.write() as c:
        jobs.insert(c, [job(1)])
    with database.read() as c:
        assert jobs.count(c) == 1
    try:
        with pytest.raises(StoreUnavailable):
            _write_during_shutdown(database, postgresql_server, stop_signal)
        for transaction in (database.read, database.write):
            with pytest.raises(StoreUnavailable), transaction() as c:
                jobs.count(c)
    finally:
        postgresql_server.start()
    with database.read() as c:
        assert jobs.count(c) == 1
    with database.write() as c:
        jobs.insert(c, [job(2)])
        assert jobs.count(c) == 2


def _write_during_shutdown(database, server, stop_signal):
    with database.write() as c:
        jobs.insert(c, [job(2)])
        server.stop(stop_signal)
        jobs.insert(c, [job(3)])
