"""Predicted run times beside what they came to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

BIG = sa.BigInteger
ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.create_table(
        "run_forecasts",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("attempt", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("made_us", BIG, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("confidence", sa.Float, nullable=False),
        sa.Column("estimate_us", BIG),
        sa.Column("truth_us", BIG),
        sa.Column("how", sa.Text, nullable=False),
        sa.Column("settled_us", BIG),
        sa.Column("peak_memory_bytes", BIG),
        sa.Column("cpu_milli", BIG),
        sa.Column("levels", JSON, nullable=False),
        sa.Column("values_us", JSON, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt", name="pk_run_forecasts"),
    )
    op.create_index("ix_run_forecasts_settled_us", "run_forecasts", ["settled_us"])
    op.create_index("ix_run_forecasts_tenant_settled_us", "run_forecasts", ["tenant", "settled_us"])
