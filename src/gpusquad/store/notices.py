"""Notice rules and the outbox. Notices are written in the transaction of their event, so that none is lost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, delete, func, insert, select, text, update

from gpusquad.store.paging import Page, from_cursor, to_cursor
from gpusquad.store.rows import insert_numbered
from gpusquad.store.tables import notice_rules, notices

State = Literal["waiting", "sent", "dead"]
_MAX_ERROR = 2000
_WAITS = text("notices.state = 'waiting'")
"""As a literal: with a parameter SQLite does not use the partial index."""


@dataclass(frozen=True, slots=True)
class RuleRow:
    """Send notices of these event kinds to this user's channel."""

    id: int
    user: str
    kinds: list[str]
    url: str
    label: str
    created_us: int


@dataclass(frozen=True, slots=True)
class NoticeRow:
    """One message to one channel."""

    id: int
    rule_id: int
    job_id: str
    kind: str
    title: str
    body: str
    tries: int
    next_us: int
    """Earliest time of the next try."""
    state: State
    error: str
    created_us: int
    payload: dict[str, Any] | None = None
    """The notice as data, for channels that carry it."""


# -- rules ---------------------------------------------------------------------------------------------------------


def add_rule(c: Connection, user: str, kinds: list[str], url: str, label: str, created_us: int) -> int:
    """Add a rule and return its id."""
    return insert_numbered(c, notice_rules, user=user, kinds=kinds, url=url, label=label, created_us=created_us)


def rule(c: Connection, rule_id: int) -> RuleRow | None:
    row = c.execute(select(notice_rules).where(notice_rules.c.id == rule_id)).first()
    return RuleRow(*row) if row else None


def rules(c: Connection, user: str | None = None) -> list[RuleRow]:
    """All rules, or those of one user, oldest first."""
    query = select(notice_rules).order_by(notice_rules.c.id)
    if user is not None:
        query = query.where(notice_rules.c.user == user)
    return [RuleRow(*row) for row in c.execute(query)]


def rules_of(c: Connection, users: Collection[str]) -> list[RuleRow]:
    """Rules of these users, oldest first."""
    query = select(notice_rules).where(notice_rules.c.user.in_(users)).order_by(notice_rules.c.id)
    return [RuleRow(*row) for row in c.execute(query)] if users else []


def remove_rule(c: Connection, rule_id: int) -> bool:
    """Remove a rule and its messages. False if there was none."""
    return c.execute(delete(notice_rules).where(notice_rules.c.id == rule_id)).rowcount > 0


# -- outbox --------------------------------------------------------------------------------------------------------


def new(
    rule_id: int, job_id: str, kind: str, title: str, body: str, created_us: int, payload: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Columns of a message to be sent as soon as possible."""
    return {"rule_id": rule_id, "job_id": job_id, "kind": kind, "title": title, "body": body, "tries": 0,
            "next_us": created_us, "state": "waiting", "error": "", "created_us": created_us,
            "payload": payload}  # fmt: skip


def add(c: Connection, rule_id: int, job_id: str, kind: str, title: str, body: str, created_us: int) -> int:
    """Add a message and return its id."""
    return insert_numbered(c, notices, **new(rule_id, job_id, kind, title, body, created_us))


def add_all(c: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add messages, each as by ``new``, in this order."""
    if rows:
        c.execute(insert(notices), rows)


def get(c: Connection, notice_id: int) -> NoticeRow | None:
    row = c.execute(select(notices).where(notices.c.id == notice_id)).first()
    return NoticeRow(*row) if row else None


def heads(c: Connection) -> list[NoticeRow]:
    """Oldest waiting message of each rule."""
    oldest = select(func.min(notices.c.id)).where(_WAITS).group_by(notices.c.rule_id)
    query = select(notices).where(notices.c.id.in_(oldest)).order_by(notices.c.id)
    return [NoticeRow(*row) for row in c.execute(query)]


def waiting(c: Connection, rule_ids: Collection[int], limit: int) -> list[NoticeRow]:
    """Waiting messages of these rules, oldest first."""
    query = select(notices).where(_WAITS, notices.c.rule_id.in_(rule_ids)).order_by(notices.c.id).limit(limit)
    return [NoticeRow(*row) for row in c.execute(query)]


def outbox(
    c: Connection, state: State | None = None, user: str | None = None, limit: int = 100, cursor: str | None = None
) -> Page[NoticeRow]:
    """One page, newest first."""
    query = select(notices).order_by(notices.c.id.desc()).limit(limit + 1)
    if state is not None:
        query = query.where(notices.c.state == state)
    if user is not None:
        query = query.where(notices.c.rule_id.in_(select(notice_rules.c.id).where(notice_rules.c.user == user)))
    if cursor is not None:
        query = query.where(notices.c.id < from_cursor(cursor, int)[0])
    found = [NoticeRow(*row) for row in c.execute(query)]
    return Page(found[:limit], to_cursor(found[limit - 1].id) if len(found) > limit else None)


def dead(c: Connection, limit: int = 100) -> list[NoticeRow]:
    """Messages that were given up, newest first."""
    return list(outbox(c, "dead", limit=limit).items)


def sent_all(c: Connection, notice_ids: Collection[int]) -> None:
    """Record that these messages were delivered."""
    these = notices.c.id.in_(notice_ids)
    c.execute(update(notices).where(these).values(state="sent", error="", tries=notices.c.tries + 1))


def sent(c: Connection, notice_id: int) -> None:
    """Record that a message was delivered."""
    _tried(c, notice_id, state="sent", error="")


def failed(c: Connection, notice_id: int, error: str, next_us: int | None) -> None:
    """Record a failed delivery and the time of the next try; None: give up."""
    again = {"state": "dead"} if next_us is None else {"next_us": next_us}
    _tried(c, notice_id, error=error[:_MAX_ERROR], **again)


def retry(c: Connection, notice_id: int, now_us: int) -> bool:
    """Make a given-up message pending again. False if there is none."""
    this = (notices.c.id == notice_id) & (notices.c.state == "dead")
    return c.execute(update(notices).where(this).values(state="waiting", tries=0, next_us=now_us)).rowcount > 0


def _tried(c: Connection, notice_id: int, **columns: str | int) -> None:
    c.execute(update(notices).where(notices.c.id == notice_id).values(tries=notices.c.tries + 1, **columns))
