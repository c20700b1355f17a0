"""Rights of tenants and users to priorities and lanes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("tenants", sa.Column("max_priority", sa.Text, nullable=False, server_default="normal"))
    op.add_column("tenants", sa.Column("may_choose_lane", sa.Boolean, nullable=False, server_default=sa.false()))
    op.add_column("users", sa.Column("max_priority", sa.Text))
    op.add_column("users", sa.Column("may_choose_lane", sa.Boolean))
