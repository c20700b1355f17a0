"""How far goals were met over time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "goal_samples",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("at_us", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("attainment", sa.Float),
        sa.Column("weight", sa.Float),
        sa.PrimaryKeyConstraint("job_id", "at_us", name="pk_goal_samples"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_goal_samples_at_us", "goal_samples", ["at_us"])
