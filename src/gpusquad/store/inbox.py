"""Inboxes of users. An entry that gets news is replaced by a newer one, so that ids are in order of time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, tuple_, update

from gpusquad.store.paging import Page, from_cursor, to_cursor
from gpusquad.store.rows import drop_smallest, values_of
from gpusquad.store.tables import inbox, jobs

KEEP_ENTRIES = 1000
"""Entries kept for each user."""
_MOST_KEYS = 400
"""Topics or ids in one statement."""


@dataclass(frozen=True, slots=True)
class InboxRow:
    """One entry: a notice about a job, or the sum of many about the jobs of one batch."""

    id: int
    user: str
    topic: str
    """What the entry is about. A user has at most one entry of a topic."""
    kind: str
    job_id: str | None
    """None: about several jobs."""
    group_id: str | None
    """Batch of the jobs, if the entry is about one."""
    count: int
    """Notices in the entry."""
    title: str
    body: str
    data: dict[str, Any] | None
    first_us: int
    """Time of its first notice."""
    at_us: int
    """Time of its latest notice."""
    read_us: int | None = None


Key = tuple[str, str]
"""User and topic."""


def of_topics(c: Connection, keys: Collection[Key]) -> dict[Key, InboxRow]:
    """Entries of these users and topics."""
    found: dict[Key, InboxRow] = {}
    for some in _chunks(keys):
        query = select(inbox).where(tuple_(inbox.c.user, inbox.c.topic).in_(some))
        found |= {(row.user, row.topic): row for row in (InboxRow(*values) for values in c.execute(query))}
    return found


def put_all(c: Connection, rows: Sequence[InboxRow]) -> None:
    """Add entries, each with a new id, in this order. ``id`` is that of the entry it replaces; 0: none."""
    for some in _chunks([row.id for row in rows if row.id]):
        c.execute(delete(inbox).where(inbox.c.id.in_(some)))
    values = [{name: value for name, value in values_of(row).items() if name != "id"} for row in rows]
    if values:
        c.execute(insert(inbox), values)


def page(c: Connection, user: str, *, unread: bool = False, after: int | None = None, job: str | None = None,
         limit: int = 100, cursor: str | None = None) -> Page[InboxRow]:  # fmt: skip
    """One page of a user's entries, newest first. ``after``: only newer ones than that id. ``job``: only those about
    this job or its batch."""
    query = select(inbox).where(inbox.c.user == user).order_by(inbox.c.id.desc()).limit(limit + 1)
    if unread:
        query = query.where(inbox.c.read_us.is_(None))
    if after is not None:
        query = query.where(inbox.c.id > after)
    if job is not None:
        batch = select(jobs.c.group_id).where(jobs.c.id == job).scalar_subquery()
        query = query.where((inbox.c.job_id == job) | (inbox.c.group_id == batch))
    if cursor is not None:
        query = query.where(inbox.c.id < from_cursor(cursor, int)[0])
    found = [InboxRow(*row) for row in c.execute(query)]
    return Page(found[:limit], to_cursor(found[limit - 1].id) if len(found) > limit else None)


def unread(c: Connection, user: str) -> int:
    """Number of a user's unread entries."""
    these = (inbox.c.user == user) & inbox.c.read_us.is_(None)
    return c.execute(select(func.count()).select_from(inbox).where(these)).scalar_one()


def mark_read(c: Connection, user: str, now_us: int, *, ids: Collection[int] = (), up_to: int | None = None) -> int:
    """Mark unread entries of a user as read: these, and all up to an id. Returns their number."""
    mine = (inbox.c.user == user) & inbox.c.read_us.is_(None)
    chosen = inbox.c.id.in_(ids) if up_to is None else inbox.c.id.in_(ids) | (inbox.c.id <= up_to)
    return c.execute(update(inbox).where(mine, chosen).values(read_us=now_us)).rowcount


def trim(c: Connection, before_us: int, most: int, keep: int = KEEP_ENTRIES) -> int:
    """Delete about ``most`` old entries, and the oldest of users that have more than ``keep``."""
    deleted = drop_smallest(c, inbox.c.at_us, before_us, most)
    counts = select(inbox.c.user, func.count()).group_by(inbox.c.user).having(func.count() > keep)
    for user, count in c.execute(counts).all():
        oldest = select(inbox.c.id).where(inbox.c.user == user).order_by(inbox.c.id).limit(min(count - keep, most))
        deleted += c.execute(delete(inbox).where(inbox.c.id.in_(oldest))).rowcount
    return deleted


def _chunks(keys: Iterable[Any]) -> list[list[Any]]:
    every = sorted(keys)
    return [every[start : start + _MOST_KEYS] for start in range(0, len(every), _MOST_KEYS)]
