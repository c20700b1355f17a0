"""Runs the steps in ``migrations/`` that a database does not have yet."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from gpusquad.store.errors import StoreTooNew

_TWO_AT_ONCE = 0x67707573


def upgrade(connection: Connection) -> None:
    """Run all missing steps in the connection's transaction."""
    if connection.dialect.name == "postgresql":  # SQLite has only one writer
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_TWO_AT_ONCE})")
    config = Config()
    config.set_main_option("script_location", "gpusquad.store:migrations")
    config.attributes["connection"] = connection
    scripts = ScriptDirectory.from_config(config)
    done = MigrationContext.configure(connection).get_current_revision()
    if done == scripts.get_current_head():
        return
    if done is not None and done not in {script.revision for script in scripts.walk_revisions()}:
        raise StoreTooNew(f"a newer gpusquad has changed this database (to revision {done}); use that one or a newer")
    command.upgrade(config, "head")
