"""Follows the logs of a job over all attempts, up to its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from gpusquad.server import sse
from gpusquad.server.inotify import FolderWatch
from gpusquad.server.keepalive import StreamKeepalive
from gpusquad.server.log_position import MAX_FOLLOWED, LogPosition
from gpusquad.server.log_text import LONGEST_CHARACTER, whole_text
from gpusquad.server.wiring import LogReader, Services
from gpusquad.store import jobs
from gpusquad.store.jobs import FINAL_STATES, JobRow

_MIN_CHUNK_BYTES = 4096
_NOT_ON_CARDS = ("pending", "held")


@dataclass(frozen=True, slots=True)
class Step:
    """Result of one read of the files."""

    sent: Sequence[bytes] = ()
    ended: str = ""
    """Final state of the job, once everything was read."""
    next_attempt: int | None = None
    patience_s: float | None = None
    """When to read again without an event. None: only after an event."""


@dataclass
class LogFollower:
    """One stream. ``task`` None: all tasks."""

    services: Services
    job_id: str
    task: int | None
    place: LogPosition
    tail: int | None = None
    _watch: FolderWatch | None = field(default=None, init=False)

    async def events(self, pulse: StreamKeepalive) -> AsyncIterator[bytes]:
        """Until the job has ended and its whole log was sent."""
        with closing(FolderWatch(pulse.bell.ring)) as self._watch:
            while not pulse.is_over:
                step = await pulse.read(self._step)
                if step is None:
                    continue
                for part in step.sent:
                    yield part
                if step.ended:
                    yield sse.event("end", {"state": step.ended})
                    return
                yield await pulse.beat()
                if step.next_attempt is not None:
                    self.place, self.tail = LogPosition(step.next_attempt), None
                elif not step.sent:
                    await pulse.rest(step.patience_s)

    def _step(self) -> Step:
        # The job is read first: if it had ended before the files were read, they are complete.
        with self.services.database.read() as c:
            row = jobs.get(c, self.job_id)
        if row is None:
            return Step(ended="lost")
        is_watched = self._watched()
        try:
            sent = self._news(is_over=_is_over(row, self.place.attempt))
        except ConnectionError:  # remote logs are unavailable now; the next read loses nothing
            return Step(patience_s=self.services.limits.log_poll_s)
        if sent:
            return Step(sent)
        if row.attempt > self.place.attempt:
            return Step(next_attempt=self.place.attempt + 1)
        if row.state in FINAL_STATES:
            return Step(ended=str(row.state))
        return Step(patience_s=None if is_watched or row.state in _NOT_ON_CARDS else self.services.limits.log_poll_s)

    def _watched(self) -> bool:
        folder = self.services.logs.folder(self.job_id, self.place.attempt)
        return folder is not None and self._watch is not None and self._watch.add(folder)

    def _news(self, is_over: bool) -> list[bytes]:
        reader = self.services.logs.reader(self.job_id, self.place.attempt)
        if reader is None:
            return []
        tasks = _chosen(reader, self.task)
        limit = max(_MIN_CHUNK_BYTES, self.services.limits.log_chunk_bytes // max(1, len(tasks)))
        parts = [part for task in tasks if (part := self._part(reader, task, limit, is_over)) is not None]
        # Only the last chunk of a round has an id, which covers all tasks. After a break the round is sent again.
        last = len(parts) - 1
        return [sse.event("log", part, str(self.place) if at == last else "") for at, part in enumerate(parts)]

    def _part(self, reader: LogReader, task: int, limit: int, is_over: bool) -> dict[str, Any] | None:
        if task not in self.place.offsets:
            self.place.offsets[task] = 0 if self.tail is None else reader.tail(task, self.tail)
        part = read_part(reader, task, self.place.offsets[task], limit, is_over)
        self.place.offsets[task] = part["next"]
        return {**part, "attempt": self.place.attempt} if part["text"] else None


def read_part(reader: LogReader, task: int, offset: int, limit: int, is_over: bool) -> dict[str, Any]:
    """Whole characters from there on. A character cut by the limit comes with the next chunk."""
    chunk = reader.read(task, offset, limit)
    data, end = chunk.data, chunk.next_offset
    text, used = whole_text(data)
    if data and not used:  # the start of one character: the rest may be in the next file, or never come
        more = reader.read(task, end, LONGEST_CHARACTER)
        if more.data and more.offset == end:
            data, end = data + more.data, more.next_offset
            text, used = whole_text(data)
        elif more.data:
            text, used = whole_text(data, is_last=True)
    if used < len(data) and is_over and end >= reader.size(task)[1]:
        text, used = whole_text(data, is_last=True)
    following = end if used == len(data) else chunk.offset + used
    return {"task": task, "offset": chunk.offset, "next": following, "text": text}


def _is_over(row: JobRow, attempt: int) -> bool:
    return row.state in FINAL_STATES or row.attempt > attempt


def _chosen(reader: LogReader, task: int | None) -> Sequence[int]:
    tasks = reader.tasks()
    if task is not None:
        return [task] if task in tasks else []
    return tasks[:MAX_FOLLOWED]
