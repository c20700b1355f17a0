"""How single cards are divided."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

BIG = sa.BigInteger
ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "card_divides",
        sa.Column("revision", NUMBER, nullable=False),
        sa.Column("at_us", BIG, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("card", ID, nullable=False),
        sa.Column("policy", sa.Text),
        sa.Column("note", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("revision", name="pk_card_divides"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_card_divides_card_revision", "card_divides", ["card", "revision"])
