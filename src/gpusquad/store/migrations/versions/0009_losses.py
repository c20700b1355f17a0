"""Recent losses of jobs, by which their next attempt is delayed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("losses", sa.JSON(none_as_null=True)))
