"""Budgets of urgent GPU-hours. Attempts that started before are not counted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("tenants", sa.Column("urgent_gpu_hours", sa.Float))
    op.add_column("attempts", sa.Column("urgent_from_us", sa.BigInteger))
    is_urgent = sa.text("urgent_from_us IS NOT NULL")
    op.create_index(
        "ix_attempts_tenant_urgent_from_us",
        "attempts",
        ["tenant", "urgent_from_us"],
        sqlite_where=is_urgent,
        postgresql_where=is_urgent,
    )
