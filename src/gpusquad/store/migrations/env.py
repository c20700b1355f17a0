"""Alembic runs this for every migration. The connection is given; its transaction is the caller's."""

from alembic import context

from gpusquad.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # SQLite can undo changes of the schema too
)
with context.begin_transaction():
    context.run_migrations()
