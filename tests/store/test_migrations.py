"""The steps lead to the schema that the code uses, on both databases."""

import sqlite3

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text

from gpusquad.store.database import Database, StoreTooNew
from gpusquad.store.tables import metadata
from gpusquad.store.urls import parse


def test_the_steps_lead_to_the_tables(blank_url):
    database = Database(blank_url)
    database.migrate()
    with database.read() as c:
        assert compare_metadata(MigrationContext.configure(c), metadata) == []
    database.close()


def test_sqlite_gets_exactly_the_tables_of_the_code(tmp_path):
    """The comparison above knows nothing of AUTOINCREMENT and of tables without row numbers; the text does."""
    migrated, made = tmp_path / "migrated.db", tmp_path / "made.db"
    Database(migrated).migrate()
    metadata.create_all(create_engine(f"sqlite:///{made}"))
    assert schema_of(migrated) == schema_of(made)


def test_postgresql_gets_exactly_the_tables_of_the_code(postgresql_server):
    """Neither does it compare how texts are ordered."""
    migrated, made = postgresql_server.add("template0"), postgresql_server.add("template0")
    Database(postgresql_server.url(migrated)).migrate()
    metadata.create_all(create_engine(parse(postgresql_server.url(made))))
    assert columns_of(postgresql_server.url(migrated)) == columns_of(postgresql_server.url(made))


def columns_of(url):
    query = """
        SELECT table_name, ordinal_position, column_name, data_type, collation_name, is_nullable, column_default
        FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> 'alembic_version'
        UNION ALL SELECT tablename, 0, indexname, indexdef, NULL, NULL, NULL
        FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'alembic_version'
    """
    with psycopg.connect(url) as connection:
        return sorted(connection.execute(query).fetchall(), key=str)


def schema_of(path):
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
    return {name: " ".join(sql.split()) for name, sql in rows if sql and name != "alembic_version"}


def test_twice_is_once(database):
    before = history_of(database)
    database.migrate()
    assert history_of(database) == before


def history_of(database):
    with database.read() as c:
        return c.execute(text("SELECT version_num FROM alembic_version")).scalars().all()


def test_a_database_of_a_newer_release_is_refused(database):
    with database.write() as c:
        c.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreTooNew, match="9999"):
        database.migrate()


def test_a_step_that_fails_leaves_nothing_behind(blank_url):
    database = Database(blank_url)
    with database.write() as c:
        c.execute(text("CREATE TABLE tokens (id integer)"))  # in the way of a later part of the first step
    with pytest.raises(Exception, match="tokens"):
        database.migrate()
    with database.read() as c:
        assert inspect(c).get_table_names() == ["tokens"]
    database.close()
