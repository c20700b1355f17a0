"""True head delay: how much later the head of the queue starts than if no job behind it had started before it.

The first reserved start is no measure of this: it is a prediction, and runs that end early make it late. So for the
head of the queue a second account of the cluster is kept, in which only the runs exist that were there when it became
the head. When they have ended, in fact and not by prediction, so far that it fits, its undelayed start is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpusquad.core.capacity.space import Space
from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.runs import Run
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement

SAMPLED_CARDS = 4096
"""On larger clusters only every n-th head is followed, because each needs a copy of the free capacity."""
MAX_KEPT = 100_000


@dataclass(slots=True)
class _Watch:
    """The head of the queue and the cluster without jobs that passed it."""

    job: Job
    rank: tuple
    space: Space
    runs: dict[str, tuple[Job, Placement]]
    fits_us: int | None = None


@dataclass(slots=True)
class HeadDelays:
    """Follows the head of the queue."""

    settled: list[tuple[str, int]] = field(default_factory=list)
    """Started heads with their true delay, oldest first. The owner takes them."""
    _watch: _Watch | None = None
    _seen: int = 0
    _last: str = ""
    _resumed: bool = False

    def ended(self, state: SchedulerState, run: Run) -> None:
        """A gang has left its cards."""
        watch = self._watch
        if watch is None or run.job.id not in watch.runs:
            return
        watch.space.release(*watch.runs.pop(run.job.id))
        self._try(state, watch)

    def interrupt(self) -> None:
        """Cards or nodes were lost or came back, or the policies changed. The delay of this head stays unknown."""
        self._watch = None

    def resume(self) -> None:
        """Runs were adopted. The delay of the next head stays unknown, because its guests may be among them."""
        self._resumed = True

    def after_cycle(self, state: SchedulerState, started: Iterable[str]) -> None:
        """Note the start of the head, and who is the head now."""
        watch = self._watch
        if watch is not None and watch.job.id in started:
            undelayed_us = state.now_us if watch.fits_us is None else watch.fits_us
            self.settled.append((watch.job.id, max(0, state.now_us - undelayed_us)))
            del self.settled[:-MAX_KEPT]
        head = next((waiting for waiting in state.queue if not waiting.blocked), None)
        if head is None:
            self._watch, self._last = None, ""
        elif head.job.id != self._last:
            self._last = head.job.id
            self._seen += 1
            every = max(1, state.gpus // SAMPLED_CARDS)
            is_followed = self._seen % every == 0 and not self._resumed
            self._watch = self._follow(state, head) if is_followed else None
            self._resumed = False

    def take_settled(self) -> list[tuple[str, int]]:
        """The heads that have started since the last call, with their true delay."""
        settled, self.settled = self.settled, []
        return settled

    def _follow(self, state: SchedulerState, head: PendingJob) -> _Watch:
        space = state.space.copy()
        runs: dict[str, tuple[Job, Placement]] = {}
        for run in state.runs.by_id.values():
            if run.started_us == state.now_us and _came(run) > _came(head):
                space.release(run.job, run.placement)  # it passed this head in the same cycle
            else:
                runs[run.job.id] = (run.job, run.placement)
        watch = _Watch(head.job, head.rank, space, runs)
        self._try(state, watch)
        return watch

    def _try(self, state: SchedulerState, watch: _Watch) -> None:
        if watch.fits_us is None and watch.job.id in state.queue and watch.space.fits(watch.job):
            placement = state.try_place(watch.space, watch.job)
            if isinstance(placement, Placement):
                watch.space.release(watch.job, placement)
                watch.fits_us = state.now_us


def _came(one: Run | PendingJob) -> tuple[int, int]:
    return one.job.eligible_us, one.sequence
