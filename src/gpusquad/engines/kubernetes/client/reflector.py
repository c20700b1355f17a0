"""A copy of one collection of the API server, kept up to date for ever, and every change told once and in order."""

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
Hear = Callable[[Change, Object, Object | None], None]
"""What happened, the object as it is now (a deleted one: as it was last), and as we knew it before."""

RELIST_S = 600.0
_SHORT_STREAM_S = 5.0
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 20.0
_MISSING_PAUSE_S = 60.0
_MISSING_TRIES = 6
"""So often in a row before known objects are taken for gone: a server that is starting may not know a kind yet."""
_WAIT = (401, 403, 429, 503)
"""A watch refused so may be asked for again as it was. After any other refusal it is safer to list."""

_log = logging.getLogger(__name__)


@dataclass
class ReflectorStats:
    """What happened so far, for the metrics."""

    lists: int = 0
    """Complete lists, the first one too."""
    gaps: int = 0
    """The server could not say what had happened since our version, so we listed again and told the difference."""
    cuts: int = 0
    """Streams that broke, and requests that got no answer."""
    refusals: int = 0
    changes: int = 0


class Reflector:
    """`run` it as a task. `items` is always what `hear` has been told, and what a policy may believe.

    If `hear` raises, `run` does: a change that was not understood cannot be made good later.
    """

    def __init__(
        self,
        api: AsyncKubeApi,
        path: str,
        *,
        hear: Hear,
        query: Mapping[str, str] | None = None,
        shrink: Shrink | None = None,
        relist_s: float = RELIST_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.path = path
        self.items: dict[str, Object] = {}
        self.synced = asyncio.Event()
        self.tally = ReflectorStats()
        self.is_missing = False
        """The server does not know this kind of object (yet)."""
        self._api = api
        self._hear = hear
        self._query = dict(query or {})
        self._shrink = shrink
        self._relist_s = relist_s
        self._clock = clock
        self._sleep = sleep
        self._version: str | None = None
        self._list_due_s = 0.0
        self._failures = 0
        self._missing_times = 0
        self._is_deaf = True
        """The stream has brought nothing yet, not even a bookmark."""
        self._trouble = ""

    async def run(self) -> NoReturn:
        while True:
            try:
                if self._version is None or self._clock() >= self._list_due_s:
                    await self._list()
                await self._follow()
                pause_s = self._pause_s() if self._failures else 0.0
            except ApiUnreachable as error:
                self.tally.cuts += 1
                pause_s = self._failed("unreachable", f"the API server does not answer for {self.path}: {error}")
            except ApiRefused as error:
                pause_s = self._refused(error)
            if pause_s:
                await self._sleep(pause_s)

    # --- list ---

    async def _list(self) -> None:
        # If this one fails: to watch on is better than to try nothing but this.
        self._list_due_s = self._clock() + self._relist_s / 10
        listing = await self._api.list(self.path, shrink=self._shrink, **self._query)
        self.tally.lists += 1
        self.is_missing = False
        self._missing_times = 0
        self._take(listing)

    def _take(self, listing: ObjectList) -> None:
        """Tells the difference between what we knew and what there is. First what is gone, so that room is free."""
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
            self._tell("deleted", before, before)

    # --- watch ---

    async def _follow(self) -> None:
        """Until the stream ends or it is time to list again."""
        began_s, self._is_deaf = self._clock(), True
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, self._list_due_s - began_s)):
                    await self._hear_stream()
        except ApiUnreachable:
            self._stream_ended(began_s)
            raise
        if not self._stream_ended(began_s):
            self._failures += 1  # a stream that ends as soon as it begins must not keep us busy

    async def _hear_stream(self) -> None:
        assert self._version is not None
        async with contextlib.aclosing(self._api.watch(self.path, self._version, **self._query)) as events:
            async for event in events:
                if not self._apply(event):
                    self._gap(event["object"])
                    return
                self._is_deaf = False
                self._is_well()

    def _stream_ended(self, began_s: float) -> bool:
        """False: it was so short that the next should wait."""
        if self._clock() - began_s <= _SHORT_STREAM_S:
            return False
        self._failures = 0
        if self._is_deaf:
            # Not even a bookmark. So it is, and no error, when the server has never had our version: its data may have
            # been restored from an older copy.
            self._version = None
        return True

    def _apply(self, event: Object) -> bool:
        """False: from here on we do not know what happens."""
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
        self.tally.gaps += 1
        self._version = None
        _log.info("listing %s again: %s", self.path, status.get("message"))

    # --- what we know ---

    def _put(self, key: str, item: Object) -> None:
        before = self.items.get(key)
        if before is not None:
            then, now = before["metadata"], item["metadata"]
            if then["uid"] == now["uid"]:
                if then["resourceVersion"] == now["resourceVersion"]:
                    return
                self.items[key] = item
                self._tell("changed", item, before)
                return
            self._forget([key])  # another one of the same name; the end of the first has passed us by
        self.items[key] = item
        self._tell("added", item, None)

    def _remove(self, key: str, item: Object) -> None:
        before = self.items.get(key)
        if before is None or before["metadata"]["uid"] != item["metadata"]["uid"]:
            return
        del self.items[key]
        self._tell("deleted", item, before)

    def _tell(self, change: Change, item: Object, before: Object | None) -> None:
        self.tally.changes += 1
        try:
            self._hear(change, item, before)
        except (ApiRefused, ApiUnreachable, TimeoutError) as error:
            raise RuntimeError(f"a listener of {self.path} failed") from error  # not to be taken for the server's

    # --- trouble ---

    def _refused(self, error: ApiRefused) -> float:
        self.tally.refusals += 1
        if error.is_missing:
            return self._missing()
        if error.is_expired:
            self.tally.gaps += 1
        if error.status not in _WAIT:
            self._version = None
        if error.is_forbidden:
            cure = "; its role needs the verbs list and watch for it" if "cannot" in error.message else ""
            return self._failed("forbidden", f"gpusquad may not read {self.path}: {error.message}{cure}")
        pause_s = self._failed(f"refused {error.status}", f"the API server refuses {self.path}: {error}")
        return max(pause_s, error.retry_after_s or 0.0)

    def _missing(self) -> float:
        """A kind of object that is not installed has no objects; it may be installed any time."""
        self._version = None
        self._missing_times += 1
        if self.items and self._missing_times < _MISSING_TRIES:
            return self._failed("missing", f"the API server no longer knows {self.path}")
        self._forget(self.items)
        self.is_missing = True
        self._failures = 0
        self._is_well()
        self.synced.set()
        return _MISSING_PAUSE_S * random.uniform(0.5, 1.0)

    def _failed(self, trouble: str, told: str) -> float:
        """Says so once, until it has been well again."""
        self._failures += 1
        if trouble != self._trouble:
            self._trouble = trouble
            _log.warning("%s", told)
        return self._pause_s()

    def _is_well(self) -> None:
        if self._trouble:
            self._trouble = ""
            _log.info("%s can be read again", self.path)

    def _pause_s(self) -> float:
        longest_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._failures - 1, 16))
        return random.uniform(0.5, 1.0) * longest_s
