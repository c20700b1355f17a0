"""Utilisation samples of cards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlalchemy import Connection, cast, func, select

from gpusquad.model.units import US_PER_S
from gpusquad.store.rows import drop_smallest, put
from gpusquad.store.tables import samples


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One sample of a card, or the mean of several. None: the card does not report it."""

    card: str
    at_us: int = 0
    busy_ratio: float | None = None
    """Fraction of the time in which a kernel ran."""
    memory_busy_ratio: float | None = None
    """Fraction of the time in which card memory was read or written."""
    memory_bytes: int | None = None
    """Memory in use."""
    power_w: float | None = None
    temperature_c: float | None = None
    clock_mhz: float | None = None


_MEASURES = [column for column in samples.c if not column.primary_key]


def append(c: Connection, at_us: int, rows: Iterable[SampleRow]) -> None:
    """Store samples of several cards taken at the same instant."""
    put(c, samples, *(replace(row, at_us=at_us) for row in rows))


def of_card(
    c: Connection, card: str, since_us: int, until_us: int, every_s: float = 0.0, limit: int = 10_000
) -> list[SampleRow]:
    """Oldest first. With ``every_s``, means over intervals of that length, each with the time of its first sample."""
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
    """Mean utilisation of a card and the number of samples."""
    within = (samples.c.card == card, samples.c.at_us >= since_us, samples.c.at_us < until_us)
    query = select(func.avg(samples.c.busy_ratio), func.count(samples.c.busy_ratio)).where(*within)
    mean, count = c.execute(query).one()
    return mean, count


def latest(c: Connection, since_us: int) -> dict[str, SampleRow]:
    """The newest sample since then of every card that has one."""
    newest = (
        select(samples.c.card, func.max(samples.c.at_us).label("at_us"))
        .where(samples.c.at_us >= since_us)
        .group_by(samples.c.card)
        .subquery()
    )
    same = (newest.c.card == samples.c.card) & (newest.c.at_us == samples.c.at_us)
    return {row.card: SampleRow(*row) for row in c.execute(select(samples).join(newest, same))}


def trim(c: Connection, before_us: int, most: int = 50_000) -> int:
    """Delete older samples, oldest first, about ``most`` of them. Returns their number."""
    return drop_smallest(c, samples.c.at_us, before_us, most)
