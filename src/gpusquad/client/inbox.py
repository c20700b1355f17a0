"""The caller's inbox."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpusquad.client.pages import joined

if TYPE_CHECKING:
    from gpusquad.client.events import EventsApi
    from gpusquad.client.http import Http
    from gpusquad.client.types import InboxEntry, InboxPage, ReadResult


class InboxApi:
    """Notices about the caller's jobs, without any rule."""

    def __init__(self, http: Http, events: EventsApi) -> None:
        self._http = http
        self._events = events

    def entries(self, *, unread: bool = False, after: int | None = None, limit: int | None = 100) -> InboxPage:
        """Newest first. ``after``: only entries with a larger id."""
        unread_now = 0

        def fetch(query):
            nonlocal unread_now
            page = self._http.get("inbox", query=query)
            unread_now = page["unread"]
            return page

        found = joined(fetch, {"unread": "true" if unread else None, "after": after}, limit)
        return found | {"unread": unread_now}

    def read(self, ids: Sequence[int] = (), up_to: int | None = None) -> ReadResult:
        """Mark these entries, and all up to an id, as read."""
        return self._http.post("inbox", "read", body={"ids": list(ids), "up_to": up_to})

    def follow(self, after: int) -> Iterator[InboxEntry]:
        """New entries, oldest first. Endless. ``after``: id of the last known entry."""
        for _ in self._events.pulse():
            for entry in reversed(self.entries(after=after, limit=None)["items"]):
                yield entry
                after = entry["id"]
