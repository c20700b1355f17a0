"""Promised starts with the actual ones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "promises",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("attempt", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("made_us", sa.BigInteger, nullable=False),
        sa.Column("promised_us", sa.BigInteger),
        sa.Column("started_us", sa.BigInteger),
        sa.Column("head_delay_us", sa.BigInteger),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("cause_job", sa.Text, nullable=False),
        sa.Column("cause_user", sa.Text, nullable=False),
        sa.Column("cause_tenant", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt", name="pk_promises"),
    )
    op.create_index("ix_promises_started_us", "promises", ["started_us"])
    op.create_index("ix_promises_tenant_started_us", "promises", ["tenant", "started_us"])
