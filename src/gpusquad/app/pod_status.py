"""Tells users on their own pods what the scheduler thinks of them: why they wait and until when, what is promised, who
pushed them aside.

What happens to gangs on their nodes is told as it happens. Why others wait is asked by a thread of its own, for a few
at a time: as many as can be written, never more than a small part of a core, and never on the decision path.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from gpusquad.app import pod_messages
from gpusquad.app.pod_update_queue import FRONT, PodUpdateQueue
from gpusquad.engines.kubernetes.settings import StatusSettings
from gpusquad.engines.kubernetes.status.gang_writer import GangStatusWriter
from gpusquad.engines.kubernetes.status.message import StatusMessage
from gpusquad.server.answers import PendingSummary, QueueEntry, ReservedStart
from gpusquad.server.services.runtime.unit_of_work import StoryEvent
from gpusquad.store.jobs import JobRow

_LEAVING = frozenset({"preempting", "stopping", "lost"})
_NEWS = frozenset({"pending", "held", "promised", "eta_moved", "requeued", "preempted", "retry", "released"})
_EVERY_S = 1.0
_REST = 20.0
"""Times as long as the last round took before the next."""
_MOST_S = 0.25
"""Of asking in one round."""
_AHEAD_S = 5.0
"""So much is handed to the writer at a time, so that whoever comes later need not wait long behind it."""
_log = structlog.get_logger("gpusquad.kubernetes")


class SchedulerQueries(Protocol):
    """The scheduler, as far as it is asked here."""

    def unfinished(self) -> list[JobRow]: ...
    def queue(self, offset: int = 0, limit: int = 100, tenant: str | None = None) -> list[QueueEntry]: ...
    def pending_summaries(self, job_ids: Sequence[str], most_s: float) -> dict[str, PendingSummary]: ...
    def reservations(self) -> dict[str, ReservedStart]: ...


class PodStatusSink(Protocol):
    """The engine, as far as it writes."""

    def tell(self, what: Callable[[GangStatusWriter], None]) -> None: ...
    def untold(self) -> int: ...


class PodStatusUpdater:
    """Begins with ``begin``; ``heard`` is called after each turn of the scheduler and returns at once."""

    def __init__(self, pods: PodStatusSink, settings: StatusSettings, now_us: Callable[[], int] | None = None) -> None:
        self._pods = pods
        self._settings = settings
        self._now_us = now_us or (lambda: time.time_ns() // 1000)
        self._rota = PodUpdateQueue(settings.every_s)
        self._lock = threading.Lock()
        self._news: list[StoryEvent] = []
        self._nodes: dict[str, tuple[str, ...]] | None = None
        """Job -> the nodes its pods were told last. None: what they were told before the service started."""
        self._stirred = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    def begin(self, scheduler: SchedulerQueries) -> None:
        if self._settings.per_second > 0:
            self._thread = threading.Thread(target=self._run, args=(scheduler,), name="pod-story", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._closing = True
        self._stirred.set()
        if self._thread is not None:
            self._thread.join()

    def heard(self, told: Sequence[tuple[int, StoryEvent]]) -> None:
        """From the scheduler's thread. Gangs that leave are told before the engine hears that they are to go."""
        leaving = [one for _, one in told if one.kind in _LEAVING and one.row.state == one.kind]
        if leaving:
            self._pods.tell(lambda teller: _tell_leaving(teller, leaving))
        news = [one for _, one in told if one.kind in _NEWS or (one.kind == "preempting" and one.data)]
        if news:
            with self._lock:
                self._news += news
            self._stirred.set()

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self, scheduler: SchedulerQueries) -> None:
        rest_s = 0.0
        while not self._closing:
            # News wakes it, but not before it has rested.
            if not self._pause(rest_s):
                return
            began_s = time.monotonic()
            try:
                self.round(scheduler, began_s)
            except Exception:
                if self._closing:
                    return
                _log.exception("pods could not be told why they wait")
            rest_s = max(0.2, _REST * (time.monotonic() - began_s))
            self._stirred.wait(_EVERY_S)
            self._stirred.clear()

    def _pause(self, for_s: float) -> bool:
        until_s = time.monotonic() + for_s
        while not self._closing and (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, 0.2))
        return not self._closing

    def round(self, scheduler: SchedulerQueries, now_s: float) -> None:
        """One look at everything; ``now_s`` only ever grows."""
        with self._lock:
            news, self._news = self._news, []
        rows = {row.id: row for row in scheduler.unfinished()}
        waiting = {row.id: row for row in rows.values() if row.state in ("pending", "held")}
        for one in news:
            if one.row.id in waiting and one.kind not in ("promised", "eta_moved"):
                self._rota.changed(one.row.id)
        if self._nodes is None:
            self._nodes = dict.fromkeys(waiting, ("not known",))
        promises = scheduler.reservations() if waiting or self._nodes else {}
        self._tell_news(news, rows, promises)
        self._tell_nodes(promises)
        self._tell_why(scheduler, rows, waiting, now_s)

    # -- what is told ------------------------------------------------------------------------------------------------

    def _tell_news(
        self, news: Sequence[StoryEvent], rows: dict[str, JobRow], promises: dict[str, ReservedStart]
    ) -> None:
        sayings: list[tuple[str, StatusMessage]] = []
        for one in news:
            row = rows.get(one.row.id)
            if one.kind == "preempting":
                winner = rows.get((one.data or {}).get("for") or "")
                if winner is not None:
                    sayings.append((winner.id, pod_messages.preempting(winner, one.row, one.cause)))
            elif row is not None and row.state == "pending":
                sayings += self._promise_words(one, row, promises.get(row.id))
        if sayings:
            self._pods.tell(lambda teller: _tell_once(teller, sayings))

    def _promise_words(
        self, one: StoryEvent, row: JobRow, promised: ReservedStart | None
    ) -> list[tuple[str, StatusMessage]]:
        if one.kind == "promised" and promised is not None:
            return [(row.id, pod_messages.reserved(row, promised, self._now_us()))]
        if one.kind == "eta_moved":
            start_us = (one.data or {}).get("start_us", 0)
            return [(row.id, pod_messages.moved(row, one.cause, start_us, self._now_us()))]
        return []

    def _tell_nodes(self, promises: dict[str, ReservedStart]) -> None:
        """Promised nodes, where they are others than before; who has none any more is told so too."""
        before = self._nodes or {}
        nodes = {job_id: promised.nodes for job_id, promised in promises.items() if promised.nodes}
        changed = {job_id: now for job_id, now in nodes.items() if before.get(job_id) != now}
        changed |= {job_id: () for job_id in before if job_id not in nodes}
        self._nodes = nodes
        if changed:
            self._pods.tell(lambda teller: _tell_promises(teller, changed))

    def _tell_why(
        self, scheduler: SchedulerQueries, rows: dict[str, JobRow], waiting: dict[str, JobRow], now_s: float
    ) -> None:
        room = int(self._settings.per_second * _AHEAD_S) - self._pods.untold()
        if not waiting or room <= 0:
            return
        line = [entry.job_id for entry in scheduler.queue(0, FRONT)]
        chosen = self._rota.choose(list(waiting), line, room, now_s)
        pending_summaries = scheduler.pending_summaries(chosen, _MOST_S) if chosen else {}
        sayings: list[tuple[str, StatusMessage, int]] = []
        for job_id, outlook in pending_summaries.items():
            is_first = self._rota.asked(job_id, now_s)
            row = waiting[job_id]
            named = pod_messages.names_for(row.tenant, (rows[who] for why in outlook.reasons for who in why.who
                                                     if who in rows))  # fmt: skip
            place = 0 if is_first or outlook.position is None else outlook.position
            sayings.append((job_id, pod_messages.why(row, outlook, self._now_us(), named), place))
        if sayings:
            self._pods.tell(lambda teller: _tell_why(teller, sayings))


# -- in the hub's thread ---------------------------------------------------------------------------------------------


def _tell_leaving(teller: GangStatusWriter, leaving: Sequence[StoryEvent]) -> None:
    for one in leaving:
        words = {"preempting": pod_messages.preempted, "stopping": pod_messages.stopped}.get(
            one.kind, pod_messages.evicted
        )
        teller.farewell(one.row.id, words(one.row, one.cause))


def _tell_once(teller: GangStatusWriter, sayings: Sequence[tuple[str, StatusMessage]]) -> None:
    for job_id, saying in sayings:
        teller.once(job_id, saying)


def _tell_promises(teller: GangStatusWriter, nodes: dict[str, tuple[str, ...]]) -> None:
    for job_id, promised in nodes.items():
        teller.promise(job_id, promised)


def _tell_why(teller: GangStatusWriter, sayings: Sequence[tuple[str, StatusMessage, int]]) -> None:
    for job_id, saying, place in sayings:
        teller.why(job_id, saying, place)
