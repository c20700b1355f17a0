"""Writes status messages to pods in the loop thread, over its own connections and with its own rate limit.

No caller waits for a write, and a failed write never stops the service: it is logged and dropped or retried.
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
from gpusquad.engines.kubernetes.status.conditions import Conditions, is_pending, nominated, nomination, status_path
from gpusquad.engines.kubernetes.status.events import EventWriter
from gpusquad.engines.kubernetes.status.message import FAILED_SCHEDULING, StatusMessage
from gpusquad.engines.kubernetes.status.rate_limits import RepeatLimiter, TokenBucket
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.objects import Object, name_of, namespace_of, uid_of

_REST_S = 30.0
"""Pause after the server was unreachable or busy."""
_FORBIDDEN_S = 600.0
"""Pause after a write was forbidden, until an administrator may have changed the role."""
_CONFLICT_S = 0.2
"""Pause until the watch has delivered the change that caused the conflict."""
_DRY_RUN_REASONS = {
    FAILED_SCHEDULING: "WouldWait", "Scheduled": "WouldSchedule", "Reserved": "WouldReserve",
    "ReservationMoved": "WouldMoveReservation", "Preempted": "WouldPreempt", "Preempting": "WouldPreempt",
    "Stopped": "WouldStop", "Released": "WouldRelease", "Evicted": "WouldEvict",
}  # fmt: skip
_log = logging.getLogger(__name__)


class StatusApi(Protocol):
    """The part of the API client that is used here."""

    async def post(self, path: str, content: Object) -> Object: ...
    async def patch(self, path: str, content: Any, *, kind: str = "merge") -> Object: ...


class PodStatusWriter:
    """``find`` returns an existing pod by its UID."""

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
        self._limiter = RepeatLimiter(self.settings)
        self._events = EventWriter(instance)
        self._conditions = Conditions()
        self._backlog = Backlog(self.settings.max_normal_events)
        self._wake = asyncio.Event()
        self._token_lock = asyncio.Lock()
        self._paused_until_s = float("-inf")
        self._nominations: dict[str, str] = {}
        """By pod: the node that was written or is queued. The watch shows it later."""

    @property
    def waiting(self) -> int:
        """Gangs whose first pod has a queued write. Any thread may read it."""
        return self._backlog.gangs

    # -- queueing ----------------------------------------------------------------------------------------------------

    def enqueue(
        self,
        pods: Sequence[Object],
        message: StatusMessage,
        urgency: Urgency = Urgency.NORMAL,
        position: int = 0,
        after_s: float = 0.0,
    ) -> None:
        """Queues the message for each pod, in this order. ``after_s``: least delay, in which it may become obsolete."""
        if self.settings.per_second <= 0:
            return
        message = self._as_dry_run(message) if self._dry_run else message
        now_s = self._clock_s()
        for number, pod in enumerate(pods):
            entry = BacklogEntry(uid_of(pod), message, urgency, number, position, pod)
            self._put(entry, message, now_s, after_s)

    def _put(self, entry: BacklogEntry, message: StatusMessage, now_s: float, after_s: float) -> None:
        delay_s = self._limiter.delay_s(entry.uid, message, now_s)
        if delay_s is None:
            self._backlog.discard(entry.slot)  # a different message was queued in between and is obsolete
        else:
            self._backlog.put(entry, now_s + max(delay_s, after_s), now_s)
            self._wake.set()

    def nominate(self, pods: Sequence[Object], nodes: Mapping[str, str]) -> None:
        """Queues the nominated node of each pod, by UID. Pods without an entry in ``nodes`` get none."""
        if self._dry_run or self.settings.per_second <= 0:
            return
        for number, pod in enumerate(pods):
            uid = uid_of(pod)
            node = nodes.get(uid, "")
            if node != self._nominations.get(uid, nominated(pod)):
                self._nominations[uid] = node
                self._backlog.put(BacklogEntry(uid, None, Urgency.RESERVATION, number, node=node))
                self._wake.set()

    def _as_dry_run(self, message: StatusMessage) -> StatusMessage:
        """In a dry run: the same text under a reason that cannot be mistaken for an action."""
        reason = _DRY_RUN_REASONS.get(message.reason, f"Would{message.reason}")
        return StatusMessage(
            reason, f"dry run: {message.message}", False, gist=message.gist and f"dry run: {message.gist}"
        )

    # -- writing -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Runs until the loop ends."""
        await asyncio.gather(*(self._work() for _ in range(self.settings.in_flight)))

    async def _work(self) -> None:
        while True:
            try:
                await self._step()
            except Exception:
                _log.exception("a status write failed")
                self._pause(_REST_S)

    async def _step(self) -> None:
        now_s = self._clock_s()
        if now_s < self._paused_until_s:
            await asyncio.sleep(self._paused_until_s - now_s)
            return
        entry = self._backlog.take(now_s)
        if entry is None:
            await self._wait(now_s)
            return
        await self._write(entry)

    async def _wait(self, now_s: float) -> None:
        due_s = self._backlog.next_s()
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), None if due_s is None else max(0.01, due_s - now_s))

    async def _write(self, entry: BacklogEntry) -> None:
        pod = self._find(entry.uid)
        if entry.message is None:
            if pod is not None and is_pending(pod):
                await self._nominate(entry, pod)
            self._nominations.pop(entry.uid, None)
            return
        if entry.message.is_why and (pod is None or not is_pending(pod)):
            return
        pod = pod or entry.pod  # users still read the events of deleted pods
        assert pod is not None
        is_written = await self._event(entry, pod, entry.message)
        if is_written and entry.message.is_why and not self._dry_run:
            await self._condition(entry, entry.message)

    async def _event(self, entry: BacklogEntry, pod: Object, message: StatusMessage) -> bool:
        for _ in range(2):  # the second time as a new event, if the server has deleted the first
            await self._take_token()
            write = self._events.write_for(pod, message, self._now())
            how = self._api.post if write.is_new else self._api.patch
            try:
                await how(write.path, write.content)
            except ApiRefused as error:
                if error.is_missing and not write.is_new:
                    self._events.forget(write)
                    continue
                self._refused(entry, error)
                return False
            except ApiUnreachable as error:
                self._unreachable(entry, error)
                return False
            self._events.written(write, self._now())
            self._limiter.record(entry.uid, message, self._clock_s())
            return True
        return False

    async def _condition(self, entry: BacklogEntry, message: StatusMessage) -> None:
        pod = self._find(entry.uid)
        if pod is None or not is_pending(pod):
            return
        patch = self._conditions.patch_for(pod, message.message, self._now())
        if patch is not None and await self._patch_status(entry, pod, patch):
            self._conditions.written(pod, message.message)

    async def _nominate(self, entry: BacklogEntry, pod: Object) -> None:
        if nominated(pod) != entry.node:
            await self._patch_status(entry, pod, nomination(pod, entry.node))

    async def _patch_status(self, entry: BacklogEntry, pod: Object, patch: Object) -> bool:
        """Patches the version that was seen, so that a pod that was bound meanwhile does not become unschedulable."""
        for _ in range(5):
            await self._take_token()
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
            if found is None or not is_pending(found):
                return False
            pod = found
            patch = {**patch, "metadata": {**patch["metadata"], "resourceVersion": pod["metadata"]["resourceVersion"]}}
        return False

    async def _take_token(self) -> None:
        async with self._token_lock:  # in the order of arrival
            while (wait_s := self._bucket.wait_s(self._clock_s())) > 0:
                await asyncio.sleep(wait_s)

    def _refused(self, entry: BacklogEntry, error: ApiRefused) -> None:
        if error.is_missing:
            return  # the pod or its namespace was deleted
        if error.is_forbidden and "being terminated" in error.message:
            return  # nothing can be created in a namespace that is being deleted
        _log.warning("cannot write the status of pods: %s", error)
        if error.is_forbidden:
            self._pause(_FORBIDDEN_S)
        elif error.is_busy or error.status >= 500:
            self._requeue(entry)
            self._pause(_REST_S)

    def _unreachable(self, entry: BacklogEntry, error: ApiUnreachable) -> None:
        _log.info("cannot write the status of pods: %s", error)
        self._requeue(entry)
        self._pause(_REST_S)

    def _requeue(self, entry: BacklogEntry) -> None:
        if entry.message is None or entry.message.is_warning:
            self._backlog.put(entry)

    def _pause(self, for_s: float) -> None:
        self._paused_until_s = max(self._paused_until_s, self._clock_s() + for_s)


def pending_pods(pods: Collection[Object]) -> list[Object]:
    """Pending pods whose condition gpusquad writes, sorted by name."""
    return sorted((pod for pod in pods if is_pending(pod)), key=lambda pod: (namespace_of(pod), name_of(pod)))
