"""Stream of job events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypedDict

from gpusquad.client.sse import QUIET_S, follow

if TYPE_CHECKING:
    from gpusquad.client.http import Http

PATH = ("events",)


class JobEvent(TypedDict):
    """One event of the stream."""

    id: int
    job: str
    name: str
    at_s: float
    kind: str
    state: str
    attempt: int
    cause: str


class EventsApi:
    """One stream for all jobs that the caller may see."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def follow(self, after: int | None = None) -> Iterator[JobEvent]:
        """Endless. ``after``: id of the last known event. None: only new events."""
        return (event for event in self.pulse(after) if event is not None)

    def pulse(
        self, after: int | None = None, patience_s: Callable[[], float] = lambda: QUIET_S
    ) -> Iterator[JobEvent | None]:
        """The same, with None whenever events may have been missed or none came for ``patience_s()``: read the state
        again."""
        for message in follow(self._http, PATH, {"after": after}, patience_s=patience_s):
            if message is None:
                yield None
            elif message.event == "job":
                yield json.loads(message.data)
