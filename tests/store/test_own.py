"""Tests that only one server process can own a database."""

import subprocess
import sys
from contextlib import contextmanager

import pytest
from sqlalchemy import text

from gpusquad.store import settings
from gpusquad.store.database import Database, StoreInUse, StoreUnavailable

CLAIMS_THE_DATABASE = """
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
def claiming_process(url):
    """A process that claims the database and holds it until it ends, and the first line of its output."""
    command = [sys.executable, "-c", CLAIMS_THE_DATABASE, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield child, child.stdout.readline().strip()


def test_second_owner_is_refused_with_the_process_id_of_the_first(database, database_url):
    with claiming_process(database_url) as (child, result):
        assert result == "owned"
        with pytest.raises(StoreInUse, match=f"process {child.pid} on "):
            database.own()
        with database.read() as c:  # reading needs no claim
            assert settings.get(c, "a") is None
    database.own()
    with claiming_process(database_url) as (_, result):
        assert "another server" in result


def test_claim_is_released_when_the_owner_is_killed(database, database_url):
    with claiming_process(database_url) as (child, result):
        assert result == "owned"
        child.kill()
        child.wait()
        for _ in range(1000):  # PostgreSQL releases the claim with a short delay
            try:
                database.own()
                break
            except StoreInUse:
                continue
        else:
            pytest.fail("the claim remained after its process was killed")


def test_second_claim_in_one_process_is_refused_until_the_first_is_closed(database, database_url):
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
def test_write_is_refused_when_another_server_took_over_the_lost_claim(database, database_url):
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
def test_schemas_of_one_database_are_owned_separately(database, database_url):
    with database.write() as c:
        c.execute(text("CREATE SCHEMA other"))
    database.own()
    other = Database(f"{database_url}&options=-csearch_path%3Dother")
    other.own()
    other.migrate()
    with other.read() as c:
        assert c.execute(text("SELECT current_schema()")).scalar() == "other"
    other.close()
