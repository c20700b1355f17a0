"""What ran on cards within a span of time, as the store has it."""

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
"""Rows looked at for one node, or for a span that is long past: most of them are not shown."""
_COLUMNS = (
    attempts.c.job_id, attempts.c.attempt, attempts.c.tenant, attempts.c.user, attempts.c.started_us,
    attempts.c.ended_us, attempts.c.gpu_milli, attempts.c.cards, attempts.c.how, jobs.c.name, jobs.c.state,
)  # fmt: skip


class AttemptBar(NamedTuple):
    """One attempt on its cards. There may be thousands in one answer: tuples are made quickly."""

    job_id: str
    attempt: int
    tenant: str
    user: str
    name: str
    started_us: int
    ended_us: int | None
    cards: list[str]
    state: str
    """How it ended; of one that is on its cards, the state of its job."""
    share_ratio: float
    """Of each card; 1: the whole of it."""


def bars(
    c: Connection, from_us: int, to_us: int, now_us: int, cards: Collection[str] | None = None, most: int = MAX_BARS
) -> tuple[list[AttemptBar], bool]:
    """Those that overlap the span, on these cards if named, and whether there are more. What is open comes first."""
    open_now = select(*_COLUMNS).where(attempts.c.ended_us.is_(None), attempts.c.started_us < to_us)
    over = select(*_COLUMNS).where(attempts.c.ended_us > from_us)
    # By the index on the ends either way. Of a span up to now the newest are kept; one that is long past is read from
    # its own beginning, not through all that came after it.
    newest_first = to_us >= now_us
    ordered = over.order_by(attempts.c.ended_us.desc() if newest_first else attempts.c.ended_us)
    found = _Rows(c, open_now, most), _Rows(c, ordered, MAX_READ)
    kept = list(islice(_kept(found, to_us, cards), most + 1))
    has_more = len(kept) > most or any(one.is_cut for one in found)
    return kept[:most], has_more


def windows_over(c: Connection, from_us: int, to_us: int, now_us: int) -> list[MarkRow]:
    """Maintenance within the span that is over by now; what is to come the scheduler knows."""
    return [
        row
        for row in marks.all(c, "window")
        if row.end_us is not None and from_us < row.end_us <= now_us and row.start_us < to_us
    ]


class _Rows:
    """Rows of a query, up to so many."""

    def __init__(self, c: Connection, query: Select[*tuple[Any, ...]], most: int) -> None:
        # Without the name of a job that is gone there is still a bar.
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
