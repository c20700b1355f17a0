"""Server-sent events: read, and continued over broken connections."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpusquad.client.errors import ApiError

if TYPE_CHECKING:
    from gpusquad.client.http import Http

QUIET_S = 45.0
"""The service sends comments at intervals; after this long without a byte the connection counts as dead."""
MAX_FAILURES = 60
"""Consecutive failed connections before giving up: about two minutes, enough for a restart of the service."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.2, 2.0


@dataclass(frozen=True, slots=True)
class SseMessage:
    """One event."""

    event: str
    data: str
    id: str = ""


def follow(
    way: Http,
    path: Sequence[str],
    query: Mapping[str, Any] | None = None,
    *,
    last_id: str = "",
    patience_s: Callable[[], float] = lambda: QUIET_S,
) -> Iterator[SseMessage | None]:
    """Events without end, or until the caller leaves. None: nothing new, but some may have been missed just before.

    ``patience_s``: seconds without data before a new connection.
    """
    failures = 0
    while True:
        try:
            stream = way.stream(path, query, {"Last-Event-ID": last_id} if last_id else {})
        except ApiError as error:
            failures += 1
            if not error.may_pass or failures > MAX_FAILURES:
                raise
            yield None
            way.pause(error.retry_after_s or _pause_s(failures))
            continue
        failures = 0
        try:
            yield None
            for message in messages(_lines(stream.blocks(patience_s))):
                if message is not None and message.id:
                    last_id = message.id
                yield message
        except TimeoutError:
            continue  # quiet, not broken
        except (OSError, http.client.HTTPException):
            pass
        finally:
            stream.close()
        way.pause(_FIRST_PAUSE_S)


def messages(lines: Iterable[bytes]) -> Iterator[SseMessage | None]:
    """Events parsed from lines as in the HTML standard. None for a comment."""
    event, last_id, data = "", "", []
    for line in lines:
        if not line:
            if data:
                yield SseMessage(event or "message", "\n".join(data), last_id)
            event, data = "", []
            continue
        if line.startswith(b":"):
            yield None
            continue
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            event = value
        elif name == "id" and "\0" not in value:
            last_id = value


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Whole lines without their ends. An unfinished line of a broken connection is dropped."""
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r")


def _pause_s(failures: int) -> float:
    return min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(failures - 1, 10))
