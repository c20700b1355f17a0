"""What makes reserved jobs start later than promised."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gpusquad.core.planning.commitments import rank_of_run
from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.runs import Run
from gpusquad.core.state.state import SchedulerState
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.store.jobs import JobRow
from gpusquad.store.promises import DelayCause

GUEST, AHEAD, ARRIVED, REQUEUED = "guest_overstayed", "ahead_overran", "arrived_ahead", "requeued_ahead"
CAPACITY, POLICY, CHANGED, OTHER = "capacity_lost", "policy_changed", "changed", "other"
RESTARTED = "restarted"
WEAK = frozenset({RESTARTED, OTHER})
"""They count only if there is no other."""
_ORDER = (GUEST, AHEAD, CAPACITY, POLICY, ARRIVED, REQUEUED, CHANGED)
_CAPACITY = ("card ", "node ", "the nodes", "the allowed nodes", "the maintenance windows", "foreign usage")
_POLICY = ("mode ", "the policies", "the policy", "the order", "the tenants")


class Delays:
    """Adds up, per pending job, by how much its start moved past the promised one, and why."""

    def __init__(self) -> None:
        self._start_us: dict[str, int] = {}
        self._moved_us: dict[str, dict[DelayCause, int]] = {}
        self._restored: set[str] = set()
        """Jobs that a restart found promised, until their first move. A service that starts sets its policies, cards
        and nodes, which looks as if they had changed."""

    def restored(self, job_ids: Iterable[str]) -> None:
        self._restored.update(job_ids)

    def moved(self, unit: UnitOfWork, state: SchedulerState, job_id: str, start_us: int, promised_us: int,
              why: str) -> None:  # fmt: skip
        """Note the expected start after a cycle, or the actual one. ``why``: the core's causes of this cycle."""
        before_us = max(self._start_us.get(job_id, promised_us), promised_us)
        self._start_us[job_id] = start_us
        later_us = start_us - before_us
        is_first = job_id in self._restored
        self._restored.discard(job_id)
        if later_us > 0:
            causes = self._moved_us.setdefault(job_id, defaultdict(int))
            causes[_cause(unit, state, job_id, why, is_first)] += later_us

    def largest(self, job_id: str) -> DelayCause | None:
        """The cause that moved it most."""
        causes = self._moved_us.get(job_id)
        if not causes:
            return None
        return max(causes, key=lambda cause: (cause.code not in WEAK, causes[cause]))

    def forget(self, job_id: str) -> None:
        self._start_us.pop(job_id, None)
        self._moved_us.pop(job_id, None)
        self._restored.discard(job_id)


def _cause(unit: UnitOfWork, state: SchedulerState, job_id: str, why: str, is_restored: bool) -> DelayCause:
    found = [cause for part in why.split("; ") if (cause := _of_text(unit, state, job_id, part)) is not None]
    if is_restored:
        found = [cause for cause in found if cause.code not in (CAPACITY, POLICY)]
    found = found or list(_arrivals(unit, state, job_id))
    unknown = DelayCause(RESTARTED if is_restored else OTHER)
    return min(found, key=lambda cause: _ORDER.index(cause.code), default=unknown)


def _of_text(unit: UnitOfWork, state: SchedulerState, job_id: str, text: str) -> DelayCause | None:
    if text.startswith(_CAPACITY):
        return DelayCause(CAPACITY)
    if text.startswith(_POLICY):
        return DelayCause(POLICY)
    who, _, rest = text.partition(" ")
    row = unit.rows.get(who)
    if row is None or who == job_id:
        return DelayCause(CHANGED) if who == job_id else None
    if who in state.runs:
        return _named(AHEAD if not _is_guest(state, job_id, who) else GUEST, row)
    return _named(ARRIVED, row) if rest.startswith("preempts") else _named(CHANGED, row)


def _is_guest(state: SchedulerState, job_id: str, other_id: str) -> bool:
    """Whether that run is behind the job in the order and started while it waited."""
    other = state.runs[other_id]
    return other.started_us >= _known(state, job_id).job.eligible_us and rank_of_run(state, other) > _rank(
        state, job_id
    )


def _arrivals(unit: UnitOfWork, state: SchedulerState, job_id: str) -> Iterator[DelayCause]:
    """Jobs that are ahead of it now although they came, or came back, after it. The last one first."""
    rank, job, sequence = _rank(state, job_id), _known(state, job_id).job, _known(state, job_id).sequence
    ahead: list[PendingJob | Run] = [waiting for waiting in state.queue if waiting.rank < rank]
    ahead += [run for run in state.runs.by_id.values() if rank_of_run(state, run) < rank]
    for other in sorted(ahead, key=lambda other: -other.sequence):
        row = unit.rows.get(other.job.id)
        was_held = other.attempt == 0 and other.job.eligible_us > job.eligible_us
        if row is not None and (other.sequence > sequence or was_held):
            yield _named(ARRIVED, row)
        elif row is not None and other.attempt > 0:
            yield _named(REQUEUED, row)


def _known(state: SchedulerState, job_id: str) -> PendingJob | Run:
    return state.queue[job_id] if job_id in state.queue else state.runs[job_id]


def _rank(state: SchedulerState, job_id: str) -> tuple:
    return state.queue[job_id].rank if job_id in state.queue else rank_of_run(state, state.runs[job_id])


def _named(code: str, row: JobRow) -> DelayCause:
    return DelayCause(code, row.id, row.user, row.tenant)
