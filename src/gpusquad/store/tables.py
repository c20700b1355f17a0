"""The current schema. ``migrations/`` holds the steps to it; a test compares the two."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    false,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Text as written, not JSONB: keys keep their order and large numbers their digits.
Json = JSON(none_as_null=True)
# Compared byte by byte, so that order and prefix search are the same on both databases.
Id = Text().with_variant(Text(collation="C"), "postgresql")
# SQLite auto-increments only a column whose type is exactly INTEGER.
Number = BigInteger().with_variant(Integer(), "sqlite")
Us = BigInteger


def _numbered(name: str, *columns: Column | Index) -> Table:
    """Rows get ascending numbers. A number is never reused, even after the newest row was removed."""
    return Table(name, metadata, Column("id", Number, primary_key=True), *columns, sqlite_autoincrement=True)


# Small columns first: SQLite then reads them without reading the JSON after them. No foreign keys on tables that are
# written often: only our own code writes them, always together with the job.
jobs = Table(
    "jobs",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("group_id", Id),
    Column("state", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("priority", Text, nullable=False),
    Column("lane", Text, nullable=False),
    Column("submitted_us", Us, nullable=False),
    Column("started_us", Us),
    Column("ended_us", Us),
    Column("release_us", Us),
    Column("sequence", BigInteger, nullable=False),
    Column("gpus", BigInteger, nullable=False),
    Column("gpu_milli", BigInteger, nullable=False),
    Column("kept_us", Us, nullable=False),
    Column("served_gpu_us", Us, nullable=False),
    Column("preemptions", Integer, nullable=False),
    Column("retries_left", Integer, nullable=False),
    Column("cause", Text, nullable=False),
    Column("forecast", Json),
    Column("after", Json, nullable=False),
    Column("placement", Json),
    Column("result", Json),
    Column("progress", Json),
    Column("stop", Json),
    Column("spec", Json, nullable=False),
    Column("core", Json, nullable=False),
    Column("losses", Json),
    Column("resolved", Json),
    # Each list of jobs has an index that yields its pages in order.
    Index(None, "submitted_us", "id"),
    Index(None, "ended_us", "id"),
    Index(None, "tenant", "submitted_us", "id"),
    Index(None, "user", "submitted_us", "id"),
    Index(None, "state", "submitted_us", "id"),
    Index(None, "group_id", "submitted_us", "id"),
    Index(None, "name", "submitted_us", "id"),
    Index(None, "sequence"),
)

# The reverse of ``jobs.after``: jobs that wait for this one.
job_waits = Table(
    "job_waits",
    metadata,
    Column("waits_for", Id, primary_key=True),
    Column("job_id", Id, primary_key=True),
    Index(None, "job_id"),
)

events = _numbered(
    "events",
    Column("job_id", Id, nullable=False),
    Column("at_us", Us, nullable=False),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("cause", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("data", Json),
    Column("tenant", Text),
    Index(None, "job_id", "id"),
    Index(None, "tenant", "id"),
)

_IS_WAITING, _IS_UNREAD = text("state = 'waiting'"), text("read_us IS NULL")
_IS_URGENT = text("urgent_from_us IS NOT NULL")

attempts = Table(
    "attempts",
    metadata,
    Column("job_id", Id, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("tenant", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("started_us", Us, nullable=False),
    Column("ended_us", Us),
    Column("gpu_milli", BigInteger, nullable=False),
    Column("cards", Json, nullable=False),
    Column("how", Text, nullable=False),
    Column("cause", Text, nullable=False),
    Column("urgent_from_us", Us),
    Index(None, "ended_us"),
    # Few attempts are urgent, so the index is small.
    Index(None, "tenant", "urgent_from_us", sqlite_where=_IS_URGENT, postgresql_where=_IS_URGENT),
)

tenants = Table(
    "tenants",
    metadata,
    Column("name", Text, primary_key=True),
    Column("weight", Float, nullable=False),
    Column("guaranteed_gpus", BigInteger),
    Column("limit_gpus", BigInteger),
    Column("reclaim_s", Float, nullable=False),
    Column("max_pending", BigInteger),
    Column("on_hang", Text, nullable=False),
    Column("run_as", Text),
    Column("max_priority", Text, nullable=False, server_default="normal"),
    Column("may_choose_lane", Boolean, nullable=False, server_default=false()),
    Column("urgent_gpu_hours", Float),
)

users = Table(
    "users",
    metadata,
    Column("name", Text, primary_key=True),
    Column("tenant", Text, ForeignKey("tenants.name"), nullable=False),
    Column("role", Text, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("max_priority", Text),
    Column("may_choose_lane", Boolean),
    Index(None, "tenant"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Id, primary_key=True),
    Column("user", Text, ForeignKey("users.name", ondelete="CASCADE"), nullable=False),
    Column("label", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("scopes", Json, nullable=False),
    Column("created_us", Us, nullable=False),
    Column("expires_us", Us),
    Column("revoked_us", Us),
    Column("last_used_us", Us),
    Index(None, "hash", unique=True),
    Index(None, "user"),
)

audit = _numbered(
    "audit",
    Column("at_us", Us, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("data", Json),
    Index(None, "actor", "id"),
    Index(None, "target", "id"),
)

policies = Table(
    "policies",
    metadata,
    Column("revision", Number, primary_key=True),
    Column("at_us", Us, nullable=False),
    Column("by", Text, nullable=False),
    Column("settings", Json, nullable=False),
    Column("note", Text, nullable=False),
    sqlite_autoincrement=True,
)

# Divide policy of one card. Without a policy, the mode's applies again.
card_divides = Table(
    "card_divides",
    metadata,
    Column("revision", Number, primary_key=True),
    Column("at_us", Us, nullable=False),
    Column("by", Text, nullable=False),
    Column("card", Id, nullable=False),
    Column("policy", Text),
    Column("note", Text, nullable=False),
    Index(None, "card", "revision"),
    sqlite_autoincrement=True,
)

marks = Table(
    "marks",
    metadata,
    Column("id", Id, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("start_us", Us, nullable=False),
    Column("end_us", Us),
    Column("by", Text, nullable=False),
    Column("cause", Text, nullable=False),
)

# Without row numbers SQLite stores the samples of a card side by side.
# SLO attainment of a job over the last window, as its card daemon reported it.
goal_samples = Table(
    "goal_samples",
    metadata,
    Column("job_id", Id, primary_key=True),
    Column("at_us", Us, primary_key=True, autoincrement=False),
    Column("attainment", Float),
    Column("weight", Float),
    Index(None, "at_us"),
    sqlite_with_rowid=False,
)

samples = Table(
    "samples",
    metadata,
    Column("card", Id, primary_key=True),
    Column("at_us", Us, primary_key=True, autoincrement=False),
    Column("busy_ratio", Float),
    Column("memory_busy_ratio", Float),
    Column("memory_bytes", BigInteger),
    Column("power_w", Float),
    Column("temperature_c", Float),
    Column("clock_mhz", Float),
    Index(None, "at_us"),
    sqlite_with_rowid=False,
)

forecasts = Table(
    "forecasts",
    metadata,
    Column("job_id", Id, primary_key=True),
    Column("made_us", Us, primary_key=True, autoincrement=False),
    Column("mid_us", Us, nullable=False),
    Column("high_us", Us, nullable=False),
    Column("truth_us", Us),
    Index(None, "truth_us"),
)

# One row per attempt that had a reservation or was the head of the queue; completed when it starts.
# The first forecast of each pending job's start, and the actual start. Separate from ``forecasts``, which binds: users
# were given those.
start_forecasts = Table(
    "start_forecasts",
    metadata,
    Column("job_id", Id, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("made_us", Us, nullable=False),
    Column("mid_us", Us, nullable=False),
    Column("high_us", Us),
    Column("started_us", Us),
    Index(None, "started_us"),
    Index(None, "tenant", "started_us"),
)

promises = Table(
    "promises",
    metadata,
    Column("job_id", Id, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("tenant", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("made_us", Us, nullable=False),
    Column("promised_us", Us),
    Column("started_us", Us),
    Column("head_delay_us", Us),
    Column("cause", Text, nullable=False),
    Column("cause_job", Text, nullable=False),
    Column("cause_user", Text, nullable=False),
    Column("cause_tenant", Text, nullable=False),
    Index(None, "started_us"),
    Index(None, "tenant", "started_us"),
)

# One row per attempt: written when it joins the queue, completed when it releases its cards.
run_forecasts = Table(
    "run_forecasts",
    metadata,
    Column("job_id", Id, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("made_us", Us, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("confidence", Float, nullable=False),
    Column("estimate_us", Us),
    Column("truth_us", Us),
    Column("how", Text, nullable=False),
    Column("settled_us", Us),
    Column("peak_memory_bytes", BigInteger),
    Column("cpu_milli", BigInteger),
    Column("levels", Json, nullable=False),
    Column("values_us", Json, nullable=False),
    Column("host_memory_bytes", BigInteger),
    Column("cards_used", Integer),
    Index(None, "settled_us"),
    Index(None, "tenant", "settled_us"),
)

notice_rules = _numbered(
    "notice_rules",
    Column("user", Text, nullable=False),
    Column("kinds", Json, nullable=False),
    Column("url", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("created_us", Us, nullable=False),
    Index(None, "user"),
)

notices = _numbered(
    "notices",
    Column("rule_id", Number, ForeignKey("notice_rules.id", ondelete="CASCADE"), nullable=False),
    Column("job_id", Id, nullable=False),
    Column("kind", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("next_us", Us, nullable=False),
    Column("state", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("created_us", Us, nullable=False),
    Column("payload", Json),
    Index(None, "state", "next_us"),
    Index(None, "rule_id"),
    # The queue of a rule's channel. Few notices wait, so the index is small.
    Index(None, "rule_id", "id", sqlite_where=_IS_WAITING, postgresql_where=_IS_WAITING),
)

# What each user sees without any rule. An entry that changes is replaced by a newer one, so ids are in order of time.
inbox = _numbered(
    "inbox",
    Column("user", Text, nullable=False),
    Column("topic", Id, nullable=False),
    Column("kind", Text, nullable=False),
    Column("job_id", Id),
    Column("group_id", Id),
    Column("count", Integer, nullable=False),
    Column("title", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("data", Json),
    Column("first_us", Us, nullable=False),
    Column("at_us", Us, nullable=False),
    Column("read_us", Us),
    Index(None, "user", "id"),
    Index(None, "user", "topic", unique=True),
    Index(None, "at_us"),
    Index(None, "user", "read_us", sqlite_where=_IS_UNREAD, postgresql_where=_IS_UNREAD),
)

settings = Table(
    "settings",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Json),
)
