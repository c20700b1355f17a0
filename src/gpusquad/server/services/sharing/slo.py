"""SLO attainment: deadlines from the store, service SLOs from the card daemons.

A daemon reports the current latency and throughput. ``GoalRecord`` stores them once a minute. Finer values are kept in
memory while a page requests them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Text, cast, select

from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import CardStatus, CardUser
from gpusquad.server.errors import NotFound
from gpusquad.server.services.sharing.cards import CardService
from gpusquad.store.jobs import UNFINISHED_STATES, JobRow
from gpusquad.store.tables import jobs

MAX_JOBS = 5_000
MAX_CARDS = 64
"""Cards whose daemons are asked: each needs a request."""
INTERVAL_US = 10 * US_PER_S
MAX_SNAPSHOTS = 720
"""Two hours of an open page."""
_HAS_GOAL = cast(jobs.c.core, Text).like('%"slo":%')


@dataclass(frozen=True, slots=True)
class Goal:
    """A job with an SLO."""

    id: str
    name: str
    tenant: str
    user: str
    state: str
    submitted_us: int
    ended_us: int | None
    slo: Mapping[str, Any]

    @property
    def deadline_us(self) -> int | None:
        after_s = self.slo.get("deadline")
        return None if after_s is None else self.submitted_us + round(float(after_s) * US_PER_S)

    @property
    def is_service(self) -> bool:
        """Whether it has a target that is measured while it runs."""
        return any(self.slo.get(name) is not None for name in ("latency", "throughput", "availability"))

    def is_met(self, now_us: int) -> bool | None:
        """Whether the deadline was met. None: none, or it is in the future."""
        due_us = self.deadline_us
        if due_us is None:
            return None
        if self.ended_us is not None:
            return self.state == "succeeded" and self.ended_us <= due_us
        return False if now_us > due_us else None

    def is_unknown(self, attainment: float | None) -> bool:
        """Whether it runs with targets that are measured, and nobody reports how far they are met."""
        return self.is_service and self.state == "running" and attainment is None

    def judged_us(self) -> int:
        """When it was known whether the deadline was met."""
        due_us = self.deadline_us or 0
        return due_us if self.ended_us is None else min(self.ended_us, due_us)


@dataclass(frozen=True, slots=True)
class SloReport:
    """A daemon's report of one job."""

    attainment: float | None
    """None: unknown."""
    weight: float | None


NO_REPORT = SloReport(None, None)


@dataclass(frozen=True, slots=True)
class SloSnapshot:
    at_us: int
    jobs: Mapping[str, SloReport]


def goals(c: Connection, since_us: int) -> tuple[list[Goal], bool]:
    """Jobs with an SLO that are unfinished or ended since then, and whether there are more."""
    few = (jobs.c.id, jobs.c.name, jobs.c.tenant, jobs.c.user, jobs.c.state, jobs.c.submitted_us, jobs.c.ended_us,
           jobs.c.core)  # fmt: skip
    found: list[Goal] = []
    # Two queries, each with its own index. The serialised job is searched as text, not parsed.
    for condition in (jobs.c.state.in_(UNFINISHED_STATES), jobs.c.ended_us > since_us):
        rows = c.execute(select(*few).where(condition, _HAS_GOAL).limit(MAX_JOBS + 1))
        found += [Goal(*row[:7], row[7].get("slo") or {}) for row in rows]
    kept = [goal for goal in found if goal.slo]
    return kept[:MAX_JOBS], len(kept) > MAX_JOBS


def goal_of(row: JobRow) -> Goal | None:
    """The SLO of one job. None: it has none."""
    slo = row.core.get("slo")
    if not slo:
        return None
    return Goal(row.id, row.name, row.tenant, row.user, row.state, row.submitted_us, row.ended_us, slo)


class SloService:
    """Safe for any thread."""

    def __init__(self, divides: CardService, now_us: Callable[[], int]) -> None:
        self._divides, self._now_us = divides, now_us
        self._snapshots: deque[SloSnapshot] = deque(maxlen=MAX_SNAPSHOTS)
        self._lock = threading.Lock()

    def snapshots(self, wanted: Sequence[Goal], cards: Sequence[CardStatus]) -> list[SloSnapshot]:
        """All stored snapshots, with a new one if the last is older than a few seconds."""
        now_us = self._now_us()
        with self._lock:
            is_due = not self._snapshots or now_us - self._snapshots[-1].at_us >= INTERVAL_US
            if is_due:
                self._snapshots.append(SloSnapshot(now_us, {}))  # so that no other thread does the same
        if is_due:
            snapshot = SloSnapshot(now_us, self._snapshot({goal.id for goal in wanted if goal.ended_us is None}, cards))
            with self._lock:
                kept = [snapshot if one.at_us == now_us else one for one in self._snapshots]
                self._snapshots.clear()
                self._snapshots.extend(kept)
        with self._lock:
            return list(self._snapshots)

    def report(self, goal: Goal, cards: Sequence[CardStatus]) -> SloReport:
        """Of one job: the last one, or a new one of its own cards if that is older than a few seconds."""
        if not goal.is_service or goal.state != "running":
            return NO_REPORT
        with self._lock:
            last = self._snapshots[-1] if self._snapshots else None
        if last is not None and goal.id in last.jobs and self._now_us() - last.at_us < INTERVAL_US:
            return last.jobs[goal.id]
        return self._snapshot({goal.id}, cards).get(goal.id, NO_REPORT)

    def _snapshot(self, wanted: set[str], cards: Sequence[CardStatus]) -> dict[str, SloReport]:
        """The worst of a job's cards: a gang is as good as its slowest task."""
        found: dict[str, SloReport] = {}
        shared = [card for card in cards if any(user.job_id in wanted for user in card.jobs)]
        for card in shared[:MAX_CARDS]:
            for job_id, seen in self._on(card).items():
                before = found.get(job_id)
                if job_id in wanted and (before is None or _rank(seen) < _rank(before)):
                    found[job_id] = seen
        return found

    def _on(self, card: CardStatus) -> dict[str, SloReport]:
        try:
            now = self._divides.get(card.id)
        except NotFound:  # it disappeared meanwhile
            return {}
        tenants = () if now.status is None else now.status.get("tenants") or ()
        return {
            user.job_id: SloReport(one.get("attainment"), one.get("weight"))
            for one in tenants
            if (user := _user_of(one, now.jobs)) is not None
        }


def _rank(seen: SloReport) -> float:
    return 2.0 if seen.attainment is None else seen.attainment


def _user_of(tenant: Mapping[str, Any], users: Sequence[CardUser]) -> CardUser | None:
    """Daemons name a client by its job, or by a pod's uid together with the job."""
    named = tenant.get("job")
    if named:
        return next((user for user in users if user.job_id == named), None)
    return next((user for user in users if user.job_id in str(tenant.get("id", ""))), None)
