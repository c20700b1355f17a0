"""Divide policies of single cards, as numbered revisions. The newest revision of a card is in force."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from gpusquad.store.rows import insert_numbered
from gpusquad.store.tables import card_divides


@dataclass(frozen=True, slots=True)
class CardDivideRow:
    """The divide policy set for a card at a given time."""

    revision: int
    at_us: int
    by: str
    card: str
    policy: str | None
    """None: the mode's divide policy applies again."""
    note: str = ""


def append(c: Connection, at_us: int, by: str, card: str, policy: str | None, note: str = "") -> int:
    """Append a revision and return its number."""
    return insert_numbered(c, card_divides, at_us=at_us, by=by, card=card, policy=policy, note=note)


def latest(c: Connection) -> dict[str, CardDivideRow]:
    """The revision in force for each card that ever had one."""
    newest = select(func.max(card_divides.c.revision)).group_by(card_divides.c.card)
    query = select(card_divides).where(card_divides.c.revision.in_(newest))
    return {row.card: CardDivideRow(*row) for row in c.execute(query)}


def of_card(c: Connection, card: str, limit: int = 100) -> list[CardDivideRow]:
    """Newest first."""
    query = select(card_divides).where(card_divides.c.card == card).order_by(card_divides.c.revision.desc())
    return [CardDivideRow(*row) for row in c.execute(query.limit(limit))]
