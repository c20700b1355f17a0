"""The first schema."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

BIG = sa.BigInteger
ID = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
JSON = sa.JSON(none_as_null=True)
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _jobs()
    _people()
    _nodes()
    _notices()


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("queue", sa.Text, nullable=False),
        sa.Column("group_id", ID),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("priority", sa.Text, nullable=False),
        sa.Column("lane", sa.Text, nullable=False),
        sa.Column("submitted_us", BIG, nullable=False),
        sa.Column("started_us", BIG),
        sa.Column("ended_us", BIG),
        sa.Column("release_us", BIG),
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("gpus", BIG, nullable=False),
        sa.Column("gpu_milli", BIG, nullable=False),
        sa.Column("kept_us", BIG, nullable=False),
        sa.Column("served_gpu_us", BIG, nullable=False),
        sa.Column("preemptions", sa.Integer, nullable=False),
        sa.Column("retries_left", sa.Integer, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("forecast", JSON),
        sa.Column("after", JSON, nullable=False),
        sa.Column("placement", JSON),
        sa.Column("result", JSON),
        sa.Column("progress", JSON),
        sa.Column("stop", JSON),
        sa.Column("spec", JSON, nullable=False),
        sa.Column("core", JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    _index("jobs", "ended_us", "id")
    _index("jobs", "group_id", "submitted_us", "id")
    _index("jobs", "name", "submitted_us", "id")
    _index("jobs", "sequence")
    _index("jobs", "state", "submitted_us", "id")
    _index("jobs", "submitted_us", "id")
    _index("jobs", "tenant", "submitted_us", "id")
    _index("jobs", "user", "submitted_us", "id")
    op.create_table(
        "job_waits",
        sa.Column("waits_for", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("waits_for", "job_id", name="pk_job_waits"),
    )
    _index("job_waits", "job_id")
    op.create_table(
        "events",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("at_us", BIG, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("data", JSON),
        sa.Column("tenant", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sqlite_autoincrement=True,
    )
    _index("events", "job_id", "id")
    _index("events", "tenant", "id")
    op.create_table(
        "attempts",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("attempt", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("started_us", BIG, nullable=False),
        sa.Column("ended_us", BIG),
        sa.Column("gpu_milli", BIG, nullable=False),
        sa.Column("cards", JSON, nullable=False),
        sa.Column("how", sa.Text, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt", name="pk_attempts"),
    )
    _index("attempts", "ended_us")
    op.create_table(
        "forecasts",
        sa.Column("job_id", ID, nullable=False),
        sa.Column("made_us", BIG, autoincrement=False, nullable=False),
        sa.Column("mid_us", BIG, nullable=False),
        sa.Column("high_us", BIG, nullable=False),
        sa.Column("truth_us", BIG),
        sa.PrimaryKeyConstraint("job_id", "made_us", name="pk_forecasts"),
    )
    _index("forecasts", "truth_us")


def _people() -> None:
    op.create_table(
        "tenants",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("weight", sa.Float, nullable=False),
        sa.Column("guaranteed_gpus", BIG),
        sa.Column("limit_gpus", BIG),
        sa.Column("reclaim_s", sa.Float, nullable=False),
        sa.Column("max_pending", BIG),
        sa.Column("on_hang", sa.Text, nullable=False),
        sa.Column("run_as", sa.Text),
        sa.PrimaryKeyConstraint("name", name="pk_tenants"),
    )
    op.create_table(
        "users",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.name"], "fk_users_tenant"),
        sa.PrimaryKeyConstraint("name", name="pk_users"),
    )
    _index("users", "tenant")
    op.create_table(
        "tokens",
        sa.Column("id", ID, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("scopes", JSON, nullable=False),
        sa.Column("created_us", BIG, nullable=False),
        sa.Column("expires_us", BIG),
        sa.Column("revoked_us", BIG),
        sa.Column("last_used_us", BIG),
        sa.ForeignKeyConstraint(["user"], ["users.name"], "fk_tokens_user", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
    )
    _index("tokens", "hash", unique=True)
    _index("tokens", "user")
    op.create_table(
        "audit",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("at_us", BIG, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("data", JSON),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sqlite_autoincrement=True,
    )
    _index("audit", "actor", "id")
    _index("audit", "target", "id")


def _nodes() -> None:
    op.create_table(
        "policies",
        sa.Column("revision", NUMBER, nullable=False),
        sa.Column("at_us", BIG, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("settings", JSON, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("revision", name="pk_policies"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "marks",
        sa.Column("id", ID, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("start_us", BIG, nullable=False),
        sa.Column("end_us", BIG),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_marks"),
    )
    op.create_table(
        "samples",
        sa.Column("card", ID, nullable=False),
        sa.Column("at_us", BIG, autoincrement=False, nullable=False),
        sa.Column("busy_ratio", sa.Float),
        sa.Column("memory_busy_ratio", sa.Float),
        sa.Column("memory_bytes", BIG),
        sa.Column("power_w", sa.Float),
        sa.Column("temperature_c", sa.Float),
        sa.Column("clock_mhz", sa.Float),
        sa.PrimaryKeyConstraint("card", "at_us", name="pk_samples"),
        sqlite_with_rowid=False,
    )
    _index("samples", "at_us")
    op.create_table(
        "settings",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("value", JSON),
        sa.PrimaryKeyConstraint("key", name="pk_settings"),
    )


def _notices() -> None:
    op.create_table(
        "notice_rules",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("kinds", JSON, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("created_us", BIG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notice_rules"),
        sqlite_autoincrement=True,
    )
    _index("notice_rules", "user")
    op.create_table(
        "notices",
        sa.Column("id", NUMBER, nullable=False),
        sa.Column("rule_id", NUMBER, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("next_us", BIG, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("created_us", BIG, nullable=False),
        sa.ForeignKeyConstraint(["rule_id"], ["notice_rules.id"], "fk_notices_rule_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_notices"),
        sqlite_autoincrement=True,
    )
    _index("notices", "rule_id")
    _index("notices", "state", "next_us")


def _index(table: str, *columns: str, **options: Any) -> None:
    op.create_index(f"ix_{table}_{'_'.join(columns)}", table, list(columns), **options)
