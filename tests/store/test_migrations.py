"""Tests that the migrations produce the schema of the code on SQLite and PostgreSQL."""

import sqlite3

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text

from gpusquad.store import attempts, people
from gpusquad.store.attempts import AttemptRow
from gpusquad.store.database import Database, StoreTooNew
from gpusquad.store.people import TenantRow, UserRow
from gpusquad.store.tables import metadata
from gpusquad.store.urls import parse


def test_migrations_produce_the_tables_of_the_code(blank_url):
    database = Database(blank_url)
    database.migrate()
    with database.read() as c:
        assert compare_metadata(MigrationContext.configure(c), metadata) == []
    database.close()


def test_sqlite_migrations_produce_the_same_schema_as_create_all(tmp_path):
    """Compares the SQL text, because ``compare_metadata`` ignores AUTOINCREMENT and WITHOUT ROWID."""
    migrated, created = tmp_path / "migrated.db", tmp_path / "made.db"
    Database(migrated).migrate()
    metadata.create_all(create_engine(f"sqlite:///{created}"))
    assert schema_of(migrated) == schema_of(created)


def test_postgresql_migrations_produce_the_same_schema_as_create_all(postgresql_server):
    """Compares the columns, because ``compare_metadata`` ignores collations."""
    migrated, created = postgresql_server.add("template0"), postgresql_server.add("template0")
    Database(postgresql_server.url(migrated)).migrate()
    metadata.create_all(create_engine(parse(postgresql_server.url(created))))
    assert columns_of(postgresql_server.url(migrated)) == columns_of(postgresql_server.url(created))


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


def test_second_migration_changes_nothing(database):
    before = applied_versions(database)
    database.migrate()
    assert applied_versions(database) == before


def applied_versions(database):
    with database.read() as c:
        return c.execute(text("SELECT version_num FROM alembic_version")).scalars().all()


def test_people_of_an_earlier_release_get_the_default_rights(blank_url):
    database = Database(blank_url)
    with database.write() as c:
        config = Config()
        config.set_main_option("script_location", "gpusquad.store:migrations")
        config.attributes["connection"] = c
        command.upgrade(config, "0004")
        c.execute(text("INSERT INTO tenants (name, weight, reclaim_s, on_hang) VALUES ('arts', 1, 0, 'warn')"))
        add = "INSERT INTO users (name, tenant, role, disabled) VALUES ('bob', 'arts', 'member', :disabled)"
        c.execute(text(add), {"disabled": False})
    database.migrate()
    with database.read() as c:
        assert people.tenant(c, "arts") == TenantRow(
            "arts", on_hang="warn", max_priority="normal", may_choose_lane=False
        )
        assert people.user(c, "bob") == UserRow("bob", "arts", max_priority=None, may_choose_lane=None)
    database.close()


def test_tenants_of_an_earlier_release_have_no_budget(blank_url):
    database = Database(blank_url)
    with database.write() as c:
        config = Config()
        config.set_main_option("script_location", "gpusquad.store:migrations")
        config.attributes["connection"] = c
        command.upgrade(config, "0006")
        c.execute(text("INSERT INTO tenants (name, weight, reclaim_s, on_hang) VALUES ('arts', 1, 0, 'warn')"))
        add = (
            'INSERT INTO attempts (job_id, attempt, tenant, "user", started_us, gpu_milli, cards, how, cause) '
            "VALUES ('01J', 0, 'arts', 'bob', 1, 1000, '[]', '', '')"
        )
        c.execute(text(add))
    database.migrate()
    with database.read() as c:
        assert people.tenant(c, "arts") == TenantRow("arts", on_hang="warn", urgent_gpu_hours=None)
        assert attempts.of_job(c, "01J") == [AttemptRow("01J", 0, "arts", "bob", 1, None, 1000)]
    database.close()


def test_database_of_a_newer_release_is_refused(database):
    with database.write() as c:
        c.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreTooNew, match="9999"):
        database.migrate()


def test_failed_migration_leaves_the_database_unchanged(blank_url):
    database = Database(blank_url)
    with database.write() as c:
        c.execute(text("CREATE TABLE tokens (id integer)"))  # conflicts with a later part of the first migration
    with pytest.raises(Exception, match="tokens"):
        database.migrate()
    with database.read() as c:
        assert inspect(c).get_table_names() == ["tokens"]
    database.close()
