"""Logs of tasks: read once, or followed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpusquad.client.sse import follow

if TYPE_CHECKING:
    from gpusquad.client.http import Http

ALL = "all"
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Text of one task. Offsets count bytes from the start of the attempt's log."""

    task: int
    attempt: int
    offset: int
    next: int
    text: str
    end: bool = False
    """Nothing more will follow."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The job and its logs have ended."""

    state: str


class LogsApi:
    """Logs are kept after the job ended."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def read(
        self,
        job: str,
        task: int = 0,
        *,
        attempt: int | None = None,
        offset: int | None = None,
        tail: int | None = None,
        limit: int | None = CHUNK_BYTES,
    ) -> LogChunk:
        """One chunk: from ``offset``, or the last ``tail`` lines. Attempt None: the latest."""
        query = {"task": task, "attempt": attempt, "offset": offset, "tail": tail, "limit": limit}
        return _chunk(self._http.get("jobs", job, "logs", query=query))

    def read_all(
        self, job: str, task: int = 0, *, attempt: int | None = None, tail: int | None = None
    ) -> Iterator[LogChunk]:
        """All current text, in chunks."""
        chunk = self.read(job, task, attempt=attempt, tail=tail)
        while chunk.text or chunk.next > chunk.offset:
            yield chunk
            if chunk.end:
                return
            chunk = self.read(job, task, attempt=chunk.attempt, offset=chunk.next)

    def stream(self, job: str, task: int | str = ALL, *, tail: int | None = None) -> Iterator[LogChunk | LogEnd]:
        """Text as it is written, over all attempts and restarts of the service, up to the end of the job."""
        seen: dict[tuple[int, int], int] = {}
        path = ("jobs", job, "logs", "stream")
        for message in follow(self._http, path, {"task": task, "tail": tail}):
            if message is None:
                continue
            data = json.loads(message.data)
            if message.event == "end":
                yield LogEnd(str(data.get("state", "")))
                return
            if message.event == "log":
                yield from _unseen(_chunk(data), seen)


def _chunk(data: dict[str, Any]) -> LogChunk:
    offset, following = int(data["offset"]), int(data["next"])
    return LogChunk(int(data["task"]), int(data["attempt"]), offset, following, data["text"], bool(data.get("end")))


def _unseen(chunk: LogChunk, seen: dict[tuple[int, int], int]) -> Iterator[LogChunk]:
    """Leave out text that a new connection repeats."""
    of = (chunk.attempt, chunk.task)
    known = seen.get(of, chunk.offset)
    seen[of] = max(known, chunk.next)
    if chunk.offset >= known:
        yield chunk
        return
    data = chunk.text.encode()
    # Bytes that were not UTF-8 were replaced on the way, so new text cannot be cut out exactly.
    if chunk.next > known and len(data) == chunk.next - chunk.offset:
        yield replace(chunk, offset=known, text=data[known - chunk.offset :].decode("utf-8", "replace"))
    elif chunk.next > known:
        yield chunk
