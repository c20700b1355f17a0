"""One server a database."""

import subprocess
import sys
from contextlib import contextmanager

import pytest
from sqlalchemy import text

from gpusquad.store import settings
from gpusquad.store.database import Database, StoreInUse, StoreUnavailable

OWNS = """
import sys
from gpusquad.store.database import Database, StoreInUse
database = Database(sys.argv[1])
try:
    database.own()
except StoreInUse as error:
    print(error, flush=True)
else:
    print("owned", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(url):
    """Tries to own the database, says how that went, and keeps it until it is killed or the block ends."""
    command = [sys.executable, "-c", OWNS, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield child, child.stdout.readline().strip()


def test_a_second_process_is_refused_and_told_whom_to_look_for(database, database_url):
    with another_process(database_url) as (child, said):
        assert said == "owned"
        with pytest.raises(StoreInUse, match=f"process {child.pid} on "):
            database.own()
        with database.read() as c:  # looking is free
            assert settings.get(c, "a") is None
    database.own()
    with another_process(database_url) as (_, said):
        assert "another server" in said


def test_a_killed_owner_leaves_no_claim(database, database_url):
    with another_process(database_url) as (child, said):
        assert said == "owned"
        child.kill()
        child.wait()
        for _ in range(1000):  # PostgreSQL notices a moment later
            try:
                database.own()
                break
            except StoreInUse:
                continue
        else:
            pytest.fail("the claim outlived its process")


def test_claims_in_one_process(database, database_url):
    database.own()
    database.own()
    second = Database(database_url)
    with pytest.raises(StoreInUse):
        second.own()
    database.close()
    second.own()
    second.close()
    database.own()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_who_lost_the_claim_with_its_session_cannot_write(database, database_url):
    database.own()
    with pytest.raises(StoreUnavailable), database.write() as c:
        c.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    second = Database(database_url)
    second.own()
    with pytest.raises(StoreUnavailable, match="another server"), database.write() as c:
        settings.put(c, "a", 1)
    second.close()
    with database.write() as c:
        settings.put(c, "a", 2)
    with pytest.raises(StoreInUse):
        second.own()
    second.close()


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_two_schemas_of_one_database_are_two_stores(database, database_url):
    with database.write() as c:
        c.execute(text("CREATE SCHEMA other"))
    database.own()
    other = Database(f"{database_url}&options=-csearch_path%3Dother")
    other.own()
    other.migrate()
    with other.read() as c:
        assert c.execute(text("SELECT current_schema()")).scalar() == "other"
    other.close()
