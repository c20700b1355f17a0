"""What the store holds of a time span: attempts on cards, pending jobs, closed cards and card utilisation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, or_, select

from gpusquad.model.codec import job_from_dict
from gpusquad.server.services.usage.slot_grid import GangWait, Shape
from gpusquad.store import marks
from gpusquad.store.jobs import UNFINISHED_STATES
from gpusquad.store.tables import attempts, audit, jobs, samples

MAX_ROWS = 100_000
"""Attempts and jobs of one span. If there are more, the answer is marked as truncated."""
CLOSING = {"card.cordon": True, "card.uncordon": False, "node.drain": True, "node.undrain": False}
"""Administrator actions on a card or node, and whether they close it."""
Span = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class CardAttempt:
    """An attempt on its cards."""

    job_id: str
    started_us: int
    ended_us: int | None
    cards: list[str]
    how: str


def given(c: Connection, since_us: int) -> list[CardAttempt]:
    """Attempts on cards since then, at most ``MAX_ROWS`` and one more."""
    columns = (attempts.c.job_id, attempts.c.started_us, attempts.c.ended_us, attempts.c.cards, attempts.c.how)
    touched = or_(attempts.c.ended_us > since_us, attempts.c.ended_us.is_(None))
    query = select(*columns).where(touched, attempts.c.gpu_milli > 0).limit(MAX_ROWS + 1)
    return [CardAttempt(*row) for row in c.execute(query)]


def waits(c: Connection, since_us: int, runs: Mapping[str, Sequence[Span]]) -> list[GangWait]:
    """Pending times since then. ``runs``: the spans in which each job was on cards."""
    few = (jobs.c.id, jobs.c.submitted_us, jobs.c.ended_us, jobs.c.state, jobs.c.gpus)
    now = [state for state in UNFINISHED_STATES if state != "held"]
    # Two queries, each with its own index.
    conditions = (jobs.c.state.in_(now), jobs.c.ended_us > since_us)
    rows = [row for one in conditions for row in c.execute(select(*few).where(one, jobs.c.gpus > 0).limit(MAX_ROWS))]
    return [
        GangWait(row.id, row.gpus, *span) for row in rows for span in _unserved(row, runs.get(row.id, ()), since_us)
    ]


def shapes(c: Connection, job_ids: Sequence[str]) -> dict[str, Shape]:
    if not job_ids:
        return {}
    rows = c.execute(select(jobs.c.id, jobs.c.gpus, jobs.c.core).where(jobs.c.id.in_(job_ids)))
    found: dict[str, Shape] = {}
    for job_id, gpus, core in rows:
        widest = max((request.cards for request, _ in job_from_dict(dict(core)).groups), default=0)
        if widest:
            found[job_id] = widest, max(1, -(-gpus // widest))
    return found


def shut(c: Connection, names: Iterable[str]) -> dict[str, list[Span]]:
    """When these cards and nodes were cordoned or drained."""
    wanted = list(names)
    lines = select(audit.c.target, audit.c.action, audit.c.at_us).where(
        audit.c.target.in_(wanted), audit.c.action.in_(list(CLOSING))
    )
    found: dict[str, list[Span]] = {}
    for target, action, at_us in c.execute(lines.order_by(audit.c.target, audit.c.id)):
        spans = found.setdefault(target, [])
        is_shut = bool(spans) and spans[-1][1] is None
        if CLOSING[action] and not is_shut:
            spans.append((at_us, None))
        elif not CLOSING[action] and is_shut:
            spans[-1] = (spans[-1][0], at_us)
    for row in marks.all(c):
        if row.kind in ("cordon", "drain") and row.target in wanted:
            found.setdefault(row.target, []).append((row.start_us, None))
    return found


def busy(c: Connection, cards: Sequence[str], start_us: int, end_us: int) -> dict[str, float]:
    """Mean utilisation of each card. Cards without samples are left out.

    Uses the key of the table in its order: no other card or time is read, and nothing is sorted.
    """
    within = (samples.c.card.in_(cards), samples.c.at_us >= start_us, samples.c.at_us < end_us)
    query = select(samples.c.card, func.avg(samples.c.busy_ratio)).where(*within).group_by(samples.c.card)
    return {card: mean for card, mean in c.execute(query) if mean is not None}


def _unserved(row: Any, runs: Sequence[Span], since_us: int) -> list[Span]:
    """From its submission, or the end of an attempt, to the next one."""
    spans: list[Span] = []
    begin_us: int | None = row.submitted_us
    for start_us, end_us in sorted(runs, key=lambda run: run[0]):
        if begin_us is not None and start_us > max(begin_us, since_us):
            spans.append((begin_us, start_us))
        begin_us = end_us
    if begin_us is not None and row.state == "pending":
        spans.append((begin_us, None))
    elif begin_us is not None and not runs and row.ended_us is not None:
        spans.append((begin_us, row.ended_us))  # cancelled while pending
    return spans
