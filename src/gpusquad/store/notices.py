"""Notice rules and the outbox. Notices are written in the transaction of their event, so that none is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, delete, select, update

from gpusquad.store.paging import Page, from_cursor, to_cursor
from gpusquad.store.rows import insert_numbered
from gpusquad.store.tables import notice_rules, notices

State = Literal["waiting", "sent", "dead"]
_MAX_ERROR = 2000


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


def remove_rule(c: Connection, rule_id: int) -> bool:
    """Remove a rule and its messages. False if there was none."""
    return c.execute(delete(notice_rules).where(notice_rules.c.id == rule_id)).rowcount > 0


# -- outbox --------------------------------------------------------------------------------------------------------


def add(c: Connection, rule_id: int, job_id: str, kind: str, title: str, body: str, created_us: int) -> int:
    """Add a message to be sent as soon as possible and return its id."""
    return insert_numbered(
        c, notices, rule_id=rule_id, job_id=job_id, kind=kind, title=title, body=body,
        tries=0, next_us=created_us, state="waiting", error="", created_us=created_us,
    )  # fmt: skip


def get(c: Connection, notice_id: int) -> NoticeRow | None:
    row = c.execute(select(notices).where(notices.c.id == notice_id)).first()
    return NoticeRow(*row) if row else None


def due(c: Connection, now_us: int, limit: int = 100) -> list[NoticeRow]:
    """Messages that are due, longest overdue first."""
    ripe = select(notices).where(notices.c.state == "waiting", notices.c.next_us <= now_us)
    query = ripe.order_by(notices.c.next_us, notices.c.id).limit(limit)
    return [NoticeRow(*row) for row in c.execute(query)]


def next_due_us(c: Connection) -> int | None:
    """When the next message is due; None: none is pending."""
    waiting = select(notices.c.next_us).where(notices.c.state == "waiting")
    return c.execute(waiting.order_by(notices.c.next_us).limit(1)).scalar()


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
