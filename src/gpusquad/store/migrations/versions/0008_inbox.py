"""The inbox, and structured data of outgoing notices. Notices that wait are sent as before, with their text only."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "inbox",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("topic", _ID, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("job_id", _ID),
        sa.Column("group_id", _ID),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("data", sa.JSON(none_as_null=True)),
        sa.Column("first_us", sa.BigInteger, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("read_us", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_inbox"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_inbox_user_id", "inbox", ["user", "id"])
    op.create_index("ix_inbox_user_topic", "inbox", ["user", "topic"], unique=True)
    op.create_index("ix_inbox_at_us", "inbox", ["at_us"])
    is_unread, is_waiting = sa.text("read_us IS NULL"), sa.text("state = 'waiting'")
    op.create_index(
        "ix_inbox_user_read_us", "inbox", ["user", "read_us"], sqlite_where=is_unread, postgresql_where=is_unread
    )
    op.add_column("notices", sa.Column("payload", sa.JSON(none_as_null=True)))
    op.create_index(
        "ix_notices_rule_id_id", "notices", ["rule_id", "id"], sqlite_where=is_waiting, postgresql_where=is_waiting
    )
