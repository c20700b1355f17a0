"""Choices for open fields of a job, its estimator's answer, the main memory of runs, and forecasts of starts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("jobs", sa.Column("resolved", sa.JSON(none_as_null=True)))
    op.add_column("run_forecasts", sa.Column("host_memory_bytes", sa.BigInteger))
    op.add_column("run_forecasts", sa.Column("cards_used", sa.Integer))
    op.create_table(
        "start_forecasts",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("made_us", sa.BigInteger, nullable=False),
        sa.Column("mid_us", sa.BigInteger, nullable=False),
        sa.Column("high_us", sa.BigInteger),
        sa.Column("started_us", sa.BigInteger),
        sa.PrimaryKeyConstraint("job_id", name="pk_start_forecasts"),
    )
    op.create_index("ix_start_forecasts_started_us", "start_forecasts", ["started_us"])
    op.create_index("ix_start_forecasts_tenant_started_us", "start_forecasts", ["tenant", "started_us"])
