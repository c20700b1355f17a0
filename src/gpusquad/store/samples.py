"""How busy the cards were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlalchemy import Connection, cast, func, select

from gpusquad.model.units import US_PER_S
from gpusquad.store.rows import drop_smallest, put
from gpusquad.store.tables import samples


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One look at a card, or the mean of several. None: the card does not tell."""

    card: str
    at_us: int = 0
    busy_ratio: float | None = None
    """Part of the time in which any kernel ran."""
    memory_busy_ratio: float | None = None
    """Part of the time in which its memory was read or written."""
    memory_bytes: int | None = None
    """In use."""
    power_w: float | None = None
    temperature_c: float | None = None
    clock_mhz: float | None = None


_MEASURES = [column for column in samples.c if not column.primary_key]


def append(c: Connection, at_us: int, rows: Iterable[SampleRow]) -> None:
    """One look at several cards at the same moment."""
    put(c, samples, *(replace(row, at_us=at_us) for row in rows))


def of_card(
    c: Connection, card: str, since_us: int, until_us: int, every_s: float = 0.0, limit: int = 10_000
) -> list[SampleRow]:
    """In order of time. With ``every_s``, the means over such spans, each told by its first moment."""
    within = (samples.c.card == card, samples.c.at_us >= since_us, samples.c.at_us < until_us)
    every_us = round(every_s * US_PER_S)
    if every_us <= 1:
        query = select(samples).where(*within).order_by(samples.c.at_us).limit(limit)
        return [SampleRow(*row) for row in c.execute(query)]
    begin_us = (samples.c.at_us - samples.c.at_us % every_us).label("begin_us")
    spans = select(begin_us, *_MEASURES).where(*within).subquery()
    means = [cast(func.avg(spans.c[column.name]), column.type) for column in _MEASURES]
    query = select(spans.c.begin_us, *means).group_by(spans.c.begin_us).order_by(spans.c.begin_us).limit(limit)
    return [SampleRow(card, *row) for row in c.execute(query)]


def busy(c: Connection, card: str, since_us: int, until_us: int) -> tuple[float | None, int]:
    """The mean of how busy a card was, and of how many looks at it."""
    within = (samples.c.card == card, samples.c.at_us >= since_us, samples.c.at_us < until_us)
    query = select(func.avg(samples.c.busy_ratio), func.count(samples.c.busy_ratio)).where(*within)
    mean, count = c.execute(query).one()
    return mean, count


def latest(c: Connection, since_us: int) -> dict[str, SampleRow]:
    """The newest sample of every card that has one since then."""
    newest = (
        select(samples.c.card, func.max(samples.c.at_us).label("at_us"))
        .where(samples.c.at_us >= since_us)
        .group_by(samples.c.card)
        .subquery()
    )
    same = (newest.c.card == samples.c.card) & (newest.c.at_us == samples.c.at_us)
    return {row.card: SampleRow(*row) for row in c.execute(select(samples).join(newest, same))}


def trim(c: Connection, before_us: int, most: int = 50_000) -> int:
    """Drop what is older, the oldest first, about so many; returns how many were dropped."""
    return drop_smallest(c, samples.c.at_us, before_us, most)
