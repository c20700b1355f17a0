"""What ran on cards within a time span, from the store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, select

from gpusquad.model.units import WHOLE_MILLI
from gpusquad.store import marks
from gpusquad.store.marks import MarkRow
from gpusquad.store.tables import attempts, jobs

MAX_BARS = 20_000
MAX_READ = 100_000
"""Rows read for one node, or for a span in the past: most of them are not shown."""
_COLUMNS = (
    attempts.c.job_id, attempts.c.attempt, attempts.c.tenant, attempts.c.user, attempts.c.started_us,
    attempts.c.ended_us, attempts.c.gpu_milli, attempts.c.cards, attempts.c.how, jobs.c.name, jobs.c.state,
)  # fmt: skip


class AttemptBar(NamedTuple):
    """One attempt on its cards. A tuple, because an answer can contain thousands."""

    job_id: str
    attempt: int
    tenant: str
    user: str
    name: str
    started_us: int
    ended_us: int | None
    cards: list[str]
    state: str
    """How it ended; for a running attempt, the state of its job."""
    share_ratio: float
    """Fraction of each card; 1 is the whole card."""


def bars(
    c: Connection, from_us: int, to_us: int, now_us: int, cards: Collection[str] | None = None, most: int = MAX_BARS
) -> tuple[list[AttemptBar], bool]:
    """Attempts that overlap the span, on these cards if given, and whether there are more. Running ones come first."""
    open_now = select(*_COLUMNS).where(attempts.c.ended_us.is_(None), attempts.c.started_us < to_us)
    over = select(*_COLUMNS).where(attempts.c.ended_us > from_us)
    # Both use the index on the ends. A span up to now keeps the newest; one in the past is read from its own start and
    # not through everything that came later.
    newest_first = to_us >= now_us
    ordered = over.order_by(attempts.c.ended_us.desc() if newest_first else attempts.c.ended_us)
    found = _Rows(c, open_now, most), _Rows(c, ordered, MAX_READ)
    kept = list(islice(_kept(found, to_us, cards), most + 1))
    has_more = len(kept) > most or any(one.is_cut for one in found)
    return kept[:most], has_more


def windows_over(c: Connection, from_us: int, to_us: int, now_us: int) -> list[MarkRow]:
    """Maintenance windows of the span that have ended. The scheduler knows the others."""
    return [
        row
        for row in marks.all(c, "window")
        if row.end_us is not None and from_us < row.end_us <= now_us and row.start_us < to_us
    ]


class _Rows:
    """Rows of a query, up to a limit."""

    def __init__(self, c: Connection, query: Select[*tuple[Any, ...]], most: int) -> None:
        # A deleted job has no name but still a bar.
        self._query = query.outerjoin(jobs, jobs.c.id == attempts.c.job_id).where(attempts.c.gpu_milli > 0)
        self._c, self._most = c, most
        self.is_cut = False

    def __iter__(self) -> Iterator[Any]:
        for read, row in enumerate(self._c.execute(self._query.limit(self._most + 1))):
            if read == self._most:
                self.is_cut = True
                return
            yield row


def _kept(sources: Iterable[_Rows], to_us: int, cards: Collection[str] | None) -> Iterator[AttemptBar]:
    for rows in sources:
        for job_id, attempt, tenant, user, started_us, ended_us, milli, held, how, name, state in rows:
            if started_us < to_us and held and (cards is None or any(card in cards for card in held)):
                now = how if ended_us is not None else state or "running"
                share_ratio = min(1.0, milli / WHOLE_MILLI / len(held))
                yield AttemptBar(
                    job_id, attempt, tenant, user, name or "", started_us, ended_us, held, now, share_ratio
                )
