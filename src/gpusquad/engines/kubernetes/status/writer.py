"""Writes what is to be told, in the hub's thread and far from what matters: on connections of its own, at its own pace.

Nothing here is ever waited for, and nothing here may stop the service: what cannot be written is logged and left.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from gpusquad.engines.kubernetes.settings import StatusSettings
from gpusquad.engines.kubernetes.status.backlog import Backlog, BacklogEntry, Urgency
from gpusquad.engines.kubernetes.status.conditions import Conditions, nominated, nomination, status_path, waits
from gpusquad.engines.kubernetes.status.events import EventWriter
from gpusquad.engines.kubernetes.status.message import FAILED_SCHEDULING, StatusMessage
from gpusquad.engines.kubernetes.status.rate_limits import RepeatLimiter, TokenBucket
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.objects import Object, name_of, namespace_of, uid_of

_REST_S = 30.0
"""After the server was not there, or too busy for us."""
_FORBIDDEN_S = 600.0
"""After it said that we may not: somebody may change that."""
_CONFLICT_S = 0.2
"""Until the change that came before ours has been seen."""
_WOULD = {
    FAILED_SCHEDULING: "WouldWait", "Scheduled": "WouldSchedule", "Reserved": "WouldReserve",
    "ReservationMoved": "WouldMoveReservation", "Preempted": "WouldPreempt", "Preempting": "WouldPreempt",
    "Stopped": "WouldStop", "Released": "WouldRelease", "Evicted": "WouldEvict",
}  # fmt: skip
_log = logging.getLogger(__name__)


class StatusApi(Protocol):
    """The API server, as far as it is needed here."""

    async def post(self, path: str, content: Object) -> Object: ...
    async def patch(self, path: str, content: Any, *, kind: str = "merge") -> Object: ...


class PodStatusWriter:
    """``find`` knows the pods that are there now, by uid."""

    def __init__(
        self,
        api: StatusApi,
        find: Callable[[str], Object | None],
        settings: StatusSettings | None = None,
        *,
        dry_run: bool = False,
        instance: str = "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._find = find
        self.settings = settings or StatusSettings()
        self._dry_run = dry_run
        self._now = now
        self._clock_s = clock_s
        self._bucket = TokenBucket(self.settings.per_second, self.settings.burst)
        self._patience = RepeatLimiter(self.settings)
        self._events = EventWriter(instance)
        self._conditions = Conditions()
        self._backlog = Backlog(self.settings.max_normal_events)
        self._stirred = asyncio.Event()
        self._turns = asyncio.Lock()
        self._resting_until_s = float("-inf")
        self._nominations: dict[str, str] = {}
        """What was written or is about to be, by pod: the cluster's answer comes later."""

    @property
    def waiting(self) -> int:
        """How many gangs wait for their first pod to be told; may be read from any thread."""
        return self._backlog.gangs

    # -- what is said ------------------------------------------------------------------------------------------------

    def say(self, pods: Sequence[Object], saying: StatusMessage, urgency: Urgency = Urgency.USUAL, place: int = 0,
            after_s: float = 0.0) -> None:  # fmt: skip
        """To each of these pods, in this order. Returns at once. ``after_s``: not before, it may settle by itself."""
        if self.settings.per_second <= 0:
            return
        saying = self._would(saying) if self._dry_run else saying
        now_s = self._clock_s()
        for number, pod in enumerate(pods):
            entry = BacklogEntry(uid_of(pod), saying, urgency, number, place, pod)
            self._put(entry, saying, now_s, after_s)

    def _put(self, entry: BacklogEntry, saying: StatusMessage, now_s: float, after_s: float) -> None:
        delay_s = self._patience.delay_s(entry.uid, saying, now_s)
        if delay_s is None:
            self._backlog.discard(entry.slot)  # it said something else in between, and that is over
        else:
            self._backlog.put(entry, now_s + max(delay_s, after_s), now_s)
            self._stirred.set()

    def nominate(self, pods: Sequence[Object], nodes: Mapping[str, str]) -> None:
        """Each of these pods has the node of its uid promised; none is promised to those that are not there."""
        if self._dry_run or self.settings.per_second <= 0:
            return
        for number, pod in enumerate(pods):
            uid = uid_of(pod)
            node = nodes.get(uid, "")
            if node != self._nominations.get(uid, nominated(pod)):
                self._nominations[uid] = node
                self._backlog.put(BacklogEntry(uid, None, Urgency.PROMISE, number, node=node))
                self._stirred.set()

    def _would(self, saying: StatusMessage) -> StatusMessage:
        """Nothing is done: the same words, and a name nobody takes for the deed."""
        reason = _WOULD.get(saying.reason, f"Would{saying.reason}")
        return StatusMessage(
            reason, f"dry run: {saying.message}", False, gist=saying.gist and f"dry run: {saying.gist}"
        )

    # -- how it is written -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """For as long as the hub runs."""
        await asyncio.gather(*(self._work() for _ in range(self.settings.in_flight)))

    async def _work(self) -> None:
        while True:
            try:
                await self._step()
            except Exception:
                _log.exception("something could not be told")
                self._rest(_REST_S)

    async def _step(self) -> None:
        now_s = self._clock_s()
        if now_s < self._resting_until_s:
            await asyncio.sleep(self._resting_until_s - now_s)
            return
        entry = self._backlog.take(now_s)
        if entry is None:
            await self._wait(now_s)
            return
        await self._write(entry)

    async def _wait(self, now_s: float) -> None:
        due_s = self._backlog.next_s()
        self._stirred.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stirred.wait(), None if due_s is None else max(0.01, due_s - now_s))

    async def _write(self, entry: BacklogEntry) -> None:
        pod = self._find(entry.uid)
        if entry.saying is None:
            if pod is not None and waits(pod):
                await self._nominate(entry, pod)
            self._nominations.pop(entry.uid, None)
            return
        if entry.saying.is_why and (pod is None or not waits(pod)):
            return
        pod = pod or entry.pod  # events of pods that are gone are still read
        assert pod is not None
        is_told = await self._event(entry, pod, entry.saying)
        if is_told and entry.saying.is_why and not self._dry_run:
            await self._condition(entry, entry.saying)

    async def _event(self, entry: BacklogEntry, pod: Object, saying: StatusMessage) -> bool:
        for _ in range(2):  # the second time anew, where the server has forgotten the first
            await self._turn()
            write = self._events.write_for(pod, saying, self._now())
            how = self._api.post if write.is_new else self._api.patch
            try:
                await how(write.path, write.content)
            except ApiRefused as error:
                if error.is_missing and not write.is_new:
                    self._events.forgotten(write)
                    continue
                self._refused(entry, error)
                return False
            except ApiUnreachable as error:
                self._unreachable(entry, error)
                return False
            self._events.written(write, self._now())
            self._patience.told(entry.uid, saying, self._clock_s())
            return True
        return False

    async def _condition(self, entry: BacklogEntry, saying: StatusMessage) -> None:
        pod = self._find(entry.uid)
        if pod is None or not waits(pod):
            return
        patch = self._conditions.patch_for(pod, saying.message, self._now())
        if patch is not None and await self._patch_status(entry, pod, patch):
            self._conditions.written(pod, saying.message)

    async def _nominate(self, entry: BacklogEntry, pod: Object) -> None:
        if nominated(pod) != entry.node:
            await self._patch_status(entry, pod, nomination(pod, entry.node))

    async def _patch_status(self, entry: BacklogEntry, pod: Object, patch: Object) -> bool:
        """Against the version that was seen: whoever was bound meanwhile must not be called unscheduled."""
        for _ in range(5):
            await self._turn()
            try:
                await self._api.patch(status_path(pod), patch, kind="strategic")
                return True
            except ApiRefused as error:
                if not error.is_conflict:
                    self._refused(entry, error)
                    return False
            except ApiUnreachable as error:
                self._unreachable(entry, error)
                return False
            await asyncio.sleep(_CONFLICT_S)
            found = self._find(entry.uid)
            if found is None or not waits(found):
                return False
            pod = found
            patch = {**patch, "metadata": {**patch["metadata"], "resourceVersion": pod["metadata"]["resourceVersion"]}}
        return False

    async def _turn(self) -> None:
        async with self._turns:  # one after the other, in the order they came
            while (wait_s := self._bucket.wait_s(self._clock_s())) > 0:
                await asyncio.sleep(wait_s)

    def _refused(self, entry: BacklogEntry, error: ApiRefused) -> None:
        if error.is_missing:
            return  # the pod, or its namespace, is gone
        if error.is_forbidden and "being terminated" in error.message:
            return  # nothing may be made in a namespace that goes
        _log.warning("pods cannot be told what is going on: %s", error)
        if error.is_forbidden:
            self._rest(_FORBIDDEN_S)
        elif error.is_busy or error.status >= 500:
            self._again(entry)
            self._rest(_REST_S)

    def _unreachable(self, entry: BacklogEntry, error: ApiUnreachable) -> None:
        _log.info("pods cannot be told what is going on: %s", error)
        self._again(entry)
        self._rest(_REST_S)

    def _again(self, entry: BacklogEntry) -> None:
        if entry.saying is None or entry.saying.is_warning:
            self._backlog.put(entry)

    def _rest(self, for_s: float) -> None:
        self._resting_until_s = max(self._resting_until_s, self._clock_s() + for_s)


def waiting_ones(pods: Collection[Object]) -> list[Object]:
    """Those whose condition is ours to write, in the order of their names."""
    return sorted((pod for pod in pods if waits(pod)), key=lambda pod: (namespace_of(pod), name_of(pod)))
