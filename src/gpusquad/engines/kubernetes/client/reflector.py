"""A local copy of one API collection, kept up to date. Every change is reported once and in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi, ObjectList, Shrink, Sleep
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.objects import Object, key_of

Change = Literal["added", "changed", "deleted"]
OnChange = Callable[[Change, Object, Object | None], None]
"""The change, the object as it is now (deleted: its last state), and its previous state."""

RELIST_S = 600.0
_SHORT_STREAM_S = 5.0
_MIN_PAUSE_S = 0.2
_MAX_PAUSE_S = 20.0
_MISSING_PAUSE_S = 60.0
_MISSING_TRIES = 6
"""Tries in a row before the known objects count as deleted: a starting server may not serve a kind yet."""
_RETRY_STATUSES = (401, 403, 429, 503)
"""After these statuses the watch continues from the same version. After any other the collection is listed again."""

_log = logging.getLogger(__name__)


@dataclass
class ReflectorStats:
    """Counters for the metrics."""

    lists: int = 0
    """Complete lists, including the first one."""
    gaps: int = 0
    """Times the server no longer had our version, so that the collection was listed again and the difference
    reported."""
    cuts: int = 0
    """Streams that broke, and requests without an answer."""
    refusals: int = 0
    changes: int = 0


class Reflector:
    """Run `run` as a task. `items` always equals what was reported to `on_change`.

    If `on_change` raises, `run` raises too: a change that was not applied cannot be repaired later.
    """

    def __init__(
        self,
        api: AsyncKubeApi,
        path: str,
        *,
        on_change: OnChange,
        query: Mapping[str, str] | None = None,
        shrink: Shrink | None = None,
        relist_s: float = RELIST_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.path = path
        self.items: dict[str, Object] = {}
        self.synced = asyncio.Event()
        self.stats = ReflectorStats()
        self.is_missing = False
        """The server does not serve this kind of object (yet)."""
        self._api = api
        self._on_change = on_change
        self._query = dict(query or {})
        self._shrink = shrink
        self._relist_s = relist_s
        self._clock = clock
        self._sleep = sleep
        self._version: str | None = None
        self._list_due_s = 0.0
        self._failures = 0
        self._missing_times = 0
        self._is_silent = True
        """The stream has delivered nothing yet, not even a bookmark."""
        self._trouble = ""

    async def run(self) -> NoReturn:
        while True:
            try:
                if self._version is None or self._clock() >= self._list_due_s:
                    await self._list()
                await self._follow()
                pause_s = self._pause_s() if self._failures else 0.0
            except ApiUnreachable as error:
                self.stats.cuts += 1
                pause_s = self._failed("unreachable", f"no answer from the API server for {self.path}: {error}")
            except ApiRefused as error:
                pause_s = self._refused(error)
            if pause_s:
                await self._sleep(pause_s)

    # --- list ---

    async def _list(self) -> None:
        # If this list fails, continue to watch and try again after a tenth of the interval.
        self._list_due_s = self._clock() + self._relist_s / 10
        listing = await self._api.list(self.path, shrink=self._shrink, **self._query)
        self.stats.lists += 1
        self.is_missing = False
        self._missing_times = 0
        self._replace(listing)

    def _replace(self, listing: ObjectList) -> None:
        """Reports the difference to the known objects. Deletions come first, so that their resources are free."""
        found = {key_of(item): item for item in listing.items}
        self._forget(key for key in self.items if key not in found)
        for key, item in found.items():
            self._put(key, item)
        self._version = listing.version
        self._list_due_s = self._clock() + self._relist_s * random.uniform(0.9, 1.1)
        self.synced.set()

    def _forget(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            before = self.items.pop(key)
            self._notify("deleted", before, before)

    # --- watch ---

    async def _follow(self) -> None:
        """Watches until the stream ends or the next list is due."""
        began_s, self._is_silent = self._clock(), True
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, self._list_due_s - began_s)):
                    await self._read_stream()
        except ApiUnreachable:
            self._stream_ended(began_s)
            raise
        if not self._stream_ended(began_s):
            self._failures += 1  # a stream that ends at once must not cause a busy loop

    async def _read_stream(self) -> None:
        assert self._version is not None
        async with contextlib.aclosing(self._api.watch(self.path, self._version, **self._query)) as events:
            async for event in events:
                if not self._apply(event):
                    self._gap(event["object"])
                    return
                self._is_silent = False
                self._recovered()

    def _stream_ended(self, began_s: float) -> bool:
        """False: the stream was so short that the next one should wait."""
        if self._clock() - began_s <= _SHORT_STREAM_S:
            return False
        self._failures = 0
        if self._is_silent:
            # Not even a bookmark. The server sends no error if it never had our version, for example after its data was
            # restored from an older backup.
            self._version = None
        return True

    def _apply(self, event: Object) -> bool:
        """False: the stream is broken, and later changes are unknown."""
        kind, item = event["type"], event["object"]
        if kind == "ERROR":
            return False
        if kind == "BOOKMARK":
            self._version = item["metadata"]["resourceVersion"]
            return True
        version = item["metadata"]["resourceVersion"]
        if self._shrink is not None:
            item = self._shrink(item)
        if kind == "DELETED":
            self._remove(key_of(item), item)
        else:
            self._put(key_of(item), item)
        self._version = version
        return True

    def _gap(self, status: Object) -> None:
        self.stats.gaps += 1
        self._version = None
        _log.info("listing %s again: %s", self.path, status.get("message"))

    # --- local copy ---

    def _put(self, key: str, item: Object) -> None:
        before = self.items.get(key)
        if before is not None:
            then, now = before["metadata"], item["metadata"]
            if then["uid"] == now["uid"]:
                if then["resourceVersion"] == now["resourceVersion"]:
                    return
                self.items[key] = item
                self._notify("changed", item, before)
                return
            self._forget([key])  # another object of the same name; the deletion of the first was missed
        self.items[key] = item
        self._notify("added", item, None)

    def _remove(self, key: str, item: Object) -> None:
        before = self.items.get(key)
        if before is None or before["metadata"]["uid"] != item["metadata"]["uid"]:
            return
        del self.items[key]
        self._notify("deleted", item, before)

    def _notify(self, change: Change, item: Object, before: Object | None) -> None:
        self.stats.changes += 1
        try:
            self._on_change(change, item, before)
        except (ApiRefused, ApiUnreachable, TimeoutError) as error:
            raise RuntimeError(f"a listener of {self.path} failed") from error  # not an API error

    # --- errors ---

    def _refused(self, error: ApiRefused) -> float:
        self.stats.refusals += 1
        if error.is_missing:
            return self._missing()
        if error.is_expired:
            self.stats.gaps += 1
        if error.status not in _RETRY_STATUSES:
            self._version = None
        if error.is_forbidden:
            cure = "; its role needs the verbs list and watch for it" if "cannot" in error.message else ""
            return self._failed("forbidden", f"gpusquad may not read {self.path}: {error.message}{cure}")
        pause_s = self._failed(f"refused {error.status}", f"the API server refuses {self.path}: {error}")
        return max(pause_s, error.retry_after_s or 0.0)

    def _missing(self) -> float:
        """A kind that is not installed has no objects. It may be installed at any time."""
        self._version = None
        self._missing_times += 1
        if self.items and self._missing_times < _MISSING_TRIES:
            return self._failed("missing", f"the API server no longer knows {self.path}")
        self._forget(self.items)
        self.is_missing = True
        self._failures = 0
        self._recovered()
        self.synced.set()
        return _MISSING_PAUSE_S * random.uniform(0.5, 1.0)

    def _failed(self, trouble: str, message: str) -> float:
        """Logs each kind of trouble once, until reading works again."""
        self._failures += 1
        if trouble != self._trouble:
            self._trouble = trouble
            _log.warning("%s", message)
        return self._pause_s()

    def _recovered(self) -> None:
        if self._trouble:
            self._trouble = ""
            _log.info("%s can be read again", self.path)

    def _pause_s(self) -> float:
        longest_s = min(_MAX_PAUSE_S, _MIN_PAUSE_S * 2.0 ** min(self._failures - 1, 16))
        return random.uniform(0.5, 1.0) * longest_s
