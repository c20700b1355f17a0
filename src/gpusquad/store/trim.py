"""Deletes old rows. Jobs, attempts, policies and the audit log stay: history and accounting need them."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from sqlalchemy import Connection, delete, func, select

from gpusquad.store import goal_samples, inbox, samples, start_forecasts
from gpusquad.store.rows import drop_smallest
from gpusquad.store.tables import events, forecasts, jobs, notices, promises, run_forecasts


@dataclass(frozen=True, slots=True)
class TrimCounts:
    """Number of deleted rows."""

    events: int = 0
    samples: int = 0
    """Samples of cards and of SLOs."""
    notices: int = 0
    """Sent notices, and entries of inboxes."""
    forecasts: int = 0
    """Forecasts of starts, promised starts and predictions of run times."""

    def __bool__(self) -> bool:
        return any(astuple(self))


def trim(c: Connection, events_before_us: int, samples_before_us: int, most: int = 5_000) -> TrimCounts:
    """Delete old samples, old events of finished jobs, sent notices, inbox entries and settled forecasts.

    Deletes about ``most`` rows of each, so that the write stays short. Call again while rows were deleted.
    """
    return TrimCounts(
        events=_trim_events(c, events_before_us, most),
        samples=samples.trim(c, samples_before_us, most) + goal_samples.trim(c, events_before_us, most),
        notices=_trim_notices(c, events_before_us, most) + inbox.trim(c, events_before_us, most),
        forecasts=_trim_forecasts(c, events_before_us, most)
        + _trim_run_forecasts(c, events_before_us, most)
        + _trim_promises(c, events_before_us, most)
        + start_forecasts.trim(c, events_before_us, most),
    )


def _trim_events(c: Connection, before_us: int, most: int) -> int:
    # Ids ascend with time, so the first event that is not old ends the search. Older events that remain belong to
    # unfinished jobs, which are few, so no index by time is needed.
    first_young = select(events.c.id).where(events.c.at_us >= before_us).order_by(events.c.id).limit(1)
    newest = c.execute(select(func.max(events.c.id))).scalar() or 0
    end = c.execute(first_young).scalar() or newest + 1
    over = select(jobs.c.id).where(jobs.c.id == events.c.job_id, jobs.c.ended_us < before_us).exists()
    old = select(events.c.id).where(events.c.id < end, over).order_by(events.c.id).limit(most)
    return c.execute(delete(events).where(events.c.id.in_(old))).rowcount


def _trim_notices(c: Connection, before_us: int, most: int) -> int:
    settled = (notices.c.state != "waiting") & (notices.c.created_us < before_us)
    old = select(notices.c.id).where(settled).order_by(notices.c.id).limit(most)
    return c.execute(delete(notices).where(notices.c.id.in_(old))).rowcount


def _trim_forecasts(c: Connection, before_us: int, most: int) -> int:
    settled = drop_smallest(c, forecasts.c.truth_us, before_us, most)
    over = select(jobs.c.id).where(jobs.c.id == forecasts.c.job_id, jobs.c.ended_us < before_us).exists()
    never_started = forecasts.c.truth_us.is_(None) & (forecasts.c.made_us < before_us) & over
    return settled + c.execute(delete(forecasts).where(never_started)).rowcount


def _trim_promises(c: Connection, before_us: int, most: int) -> int:
    settled = drop_smallest(c, promises.c.started_us, before_us, most)
    over = select(jobs.c.id).where(jobs.c.id == promises.c.job_id, jobs.c.ended_us < before_us).exists()
    never_started = promises.c.started_us.is_(None) & (promises.c.made_us < before_us) & over
    return settled + c.execute(delete(promises).where(never_started)).rowcount


def _trim_run_forecasts(c: Connection, before_us: int, most: int) -> int:
    settled = drop_smallest(c, run_forecasts.c.settled_us, before_us, most)
    over = select(jobs.c.id).where(jobs.c.id == run_forecasts.c.job_id, jobs.c.ended_us < before_us).exists()
    never_ran = run_forecasts.c.settled_us.is_(None) & (run_forecasts.c.made_us < before_us) & over
    return settled + c.execute(delete(run_forecasts).where(never_ran)).rowcount
