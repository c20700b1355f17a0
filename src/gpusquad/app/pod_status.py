"""Writes the scheduler's decisions to pods as events and conditions: reasons for waiting, reservations, preemptions.

Changes of placed gangs are written as they happen. Reasons of pending gangs are queried by a separate thread, a few at
a time: no more than can be written, a small part of a core, and never on the decision path.
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
from gpusquad.server.services.jobs.rights import RESTRICTED
from gpusquad.server.services.runtime.unit_of_work import StoryEvent
from gpusquad.store.jobs import JobRow

_LEAVING = frozenset({"preempting", "stopping", "lost"})
_NEWS = frozenset({"pending", "held", "promised", "eta_moved", "requeued", "preempted", "retry", "released"})
_INTERVAL_S = 1.0
_REST_FACTOR = 20.0
"""Pause after a round, in multiples of its duration."""
_QUERY_BUDGET_S = 0.25
"""For the queries of one round."""
_WRITE_AHEAD_S = 5.0
"""Seconds of writes handed over at a time, so that a newer message does not wait long behind them."""
_log = structlog.get_logger("gpusquad.kubernetes")


class SchedulerQueries(Protocol):
    """The scheduler's queries that are used here."""

    def unfinished(self) -> list[JobRow]: ...
    def queue(self, offset: int = 0, limit: int = 100, tenant: str | None = None) -> list[QueueEntry]: ...
    def pending_summaries(self, job_ids: Sequence[str], most_s: float) -> dict[str, PendingSummary]: ...
    def reservations(self) -> dict[str, ReservedStart]: ...


class PodStatusSink(Protocol):
    """The engine's status writes."""

    def write_status(self, what: Callable[[GangStatusWriter], None]) -> None: ...
    def pending_status_writes(self) -> int: ...


class PodStatusUpdater:
    """Call ``begin`` once. ``heard`` is called after each cycle of the scheduler and returns at once."""

    def __init__(self, pods: PodStatusSink, settings: StatusSettings, now_us: Callable[[], int] | None = None) -> None:
        self._pods = pods
        self._settings = settings
        self._now_us = now_us or (lambda: time.time_ns() // 1000)
        self._queue = PodUpdateQueue(settings.every_s)
        self._lock = threading.Lock()
        self._news: list[StoryEvent] = []
        self._nodes: dict[str, tuple[str, ...]] | None = None
        """Nodes last written to each job's pods. None: not known since the service started."""
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    def begin(self, queries: SchedulerQueries) -> None:
        if self._settings.per_second > 0:
            self._thread = threading.Thread(target=self._run, args=(queries,), name="pod-story", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def heard(self, told: Sequence[tuple[int, StoryEvent]]) -> None:
        """Called in the scheduler's thread. Stopping gangs get their message before the engine gets the order to stop
        them."""
        leaving = [event for _, event in told if event.kind in _LEAVING and event.row.state == event.kind]
        if leaving:
            self._pods.write_status(lambda status_writer: _write_stop_causes(status_writer, leaving))
        news = [event for _, event in told if event.kind in _NEWS or _is_restriction(event)
                or (event.kind == "preempting" and event.data)]  # fmt: skip
        if news:
            with self._lock:
                self._news += news
            self._wake.set()

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self, queries: SchedulerQueries) -> None:
        rest_s = 0.0
        while not self._closing:
            # News wakes the thread, but not before its rest is over.
            if not self._pause(rest_s):
                return
            began_s = time.monotonic()
            try:
                self.round(queries, began_s)
            except Exception:
                if self._closing:
                    return
                _log.exception("cannot write the reasons of pending pods")
            rest_s = max(0.2, _REST_FACTOR * (time.monotonic() - began_s))
            self._wake.wait(_INTERVAL_S)
            self._wake.clear()

    def _pause(self, for_s: float) -> bool:
        until_s = time.monotonic() + for_s
        while not self._closing and (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, 0.2))
        return not self._closing

    def round(self, queries: SchedulerQueries, now_s: float) -> None:
        """One pass over news, reservations and reasons. ``now_s`` is monotonic."""
        with self._lock:
            news, self._news = self._news, []
        rows = {row.id: row for row in queries.unfinished()}
        waiting = {row.id: row for row in rows.values() if row.state in ("pending", "held")}
        for event in news:
            if event.row.id in waiting and event.kind not in ("promised", "eta_moved"):
                self._queue.changed(event.row.id)
        if self._nodes is None:
            self._nodes = dict.fromkeys(waiting, ("not known",))
        reservations = queries.reservations() if waiting or self._nodes else {}
        self._write_news(news, rows, reservations)
        self._write_nodes(reservations)
        self._write_reasons(queries, rows, waiting, now_s)

    # -- messages ----------------------------------------------------------------------------------------------------

    def _write_news(
        self, news: Sequence[StoryEvent], rows: dict[str, JobRow], reservations: dict[str, ReservedStart]
    ) -> None:
        messages: list[tuple[str, StatusMessage]] = []
        for event in news:
            row = rows.get(event.row.id)
            if event.kind == "preempting":
                winner = rows.get((event.data or {}).get("for") or "")
                if winner is not None:
                    messages.append((winner.id, pod_messages.preempting(winner, event.row, event.cause)))
            elif row is not None and _is_restriction(event):
                messages.append((row.id, pod_messages.restricted(row, event.cause)))
            elif row is not None and row.state == "pending":
                messages += self._reservation_messages(event, row, reservations.get(row.id))
        if messages:
            self._pods.write_status(lambda status_writer: _write_events(status_writer, messages))

    def _reservation_messages(
        self, event: StoryEvent, row: JobRow, reservation: ReservedStart | None
    ) -> list[tuple[str, StatusMessage]]:
        if event.kind == "promised" and reservation is not None:
            return [(row.id, pod_messages.reserved(row, reservation, self._now_us()))]
        if event.kind == "eta_moved":
            start_us = (event.data or {}).get("start_us", 0)
            return [(row.id, pod_messages.moved(row, event.cause, start_us, self._now_us()))]
        return []

    def _write_nodes(self, reservations: dict[str, ReservedStart]) -> None:
        """Writes reserved nodes that changed, and clears those of jobs that have none any more."""
        before = self._nodes or {}
        nodes = {job_id: reservation.nodes for job_id, reservation in reservations.items() if reservation.nodes}
        changed = {job_id: now for job_id, now in nodes.items() if before.get(job_id) != now}
        changed |= {job_id: () for job_id in before if job_id not in nodes}
        self._nodes = nodes
        if changed:
            self._pods.write_status(lambda status_writer: _write_reserved_nodes(status_writer, changed))

    def _write_reasons(
        self, queries: SchedulerQueries, rows: dict[str, JobRow], waiting: dict[str, JobRow], now_s: float
    ) -> None:
        room = int(self._settings.per_second * _WRITE_AHEAD_S) - self._pods.pending_status_writes()
        if not waiting or room <= 0:
            return
        line = [entry.job_id for entry in queries.queue(0, FRONT)]
        chosen = self._queue.choose(list(waiting), line, room, now_s)
        pending_summaries = queries.pending_summaries(chosen, _QUERY_BUDGET_S) if chosen else {}
        messages: list[tuple[str, StatusMessage, int]] = []
        for job_id, summary in pending_summaries.items():
            is_first = self._queue.asked(job_id, now_s)
            row = waiting[job_id]
            causes = [who for reason in summary.reasons for who in reason.who]
            name_of = pod_messages.names_for(row.tenant, (rows[who] for who in causes if who in rows))
            position = 0 if is_first or summary.position is None else summary.position
            messages.append((job_id, pod_messages.pending(row, summary, self._now_us(), name_of), position))
        if messages:
            self._pods.write_status(lambda status_writer: _write_reasons(status_writer, messages))


def _is_restriction(event: StoryEvent) -> bool:
    return event.kind == "warned" and event.data == RESTRICTED


# -- in the engine's loop thread -------------------------------------------------------------------------------------


def _write_stop_causes(status_writer: GangStatusWriter, leaving: Sequence[StoryEvent]) -> None:
    for event in leaving:
        text = {"preempting": pod_messages.preempted, "stopping": pod_messages.stopped}.get(
            event.kind, pod_messages.evicted
        )
        status_writer.write_stop_cause(event.row.id, text(event.row, event.cause))


def _write_events(status_writer: GangStatusWriter, messages: Sequence[tuple[str, StatusMessage]]) -> None:
    for job_id, message in messages:
        status_writer.write_event(job_id, message)


def _write_reserved_nodes(status_writer: GangStatusWriter, nodes: dict[str, tuple[str, ...]]) -> None:
    for job_id, reserved in nodes.items():
        status_writer.write_reserved_nodes(job_id, reserved)


def _write_reasons(status_writer: GangStatusWriter, messages: Sequence[tuple[str, StatusMessage, int]]) -> None:
    for job_id, message, position in messages:
        status_writer.write_reason(job_id, message, position)
