"""One leader among several replicas, by a Lease: https://kubernetes.io/docs/concepts/architecture/leases/.

No clock of one machine is ever compared with that of another. A leader stops when it has not been able to renew for
`renew_s` by its own clock; others wait until the lease has not changed for `duration_s`, which is longer, by theirs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.objects import Object
from gpusquad.model.errors import Invalid

_log = logging.getLogger(__name__)
_NEVER = -math.inf


def _since_boot_s() -> float:
    """Goes on while the machine sleeps: a leader that wakes up must know that its time has passed."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Leadership:
    """`await acquire()`, lead while `leads`, and `await close()` to let another lead at once.

    `lost` is set, and `on_lost` called, in the loop's thread, before another may lead. Whoever was frozen learns of it
    only when it runs again; so ask `leads`, which looks at the clock, just before what only the leader may do.
    Whoever deletes the lease breaks this: another may then lead before the leader has noticed, within `retry_s`.
    """

    def __init__(
        self,
        api: AsyncKubeApi,
        namespace: str,
        name: str,
        identity: str,
        *,
        duration_s: float = 15.0,
        renew_s: float = 10.0,
        retry_s: float = 2.0,
        clock: Callable[[], float] = _since_boot_s,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_lost: Callable[[str], None] | None = None,
    ) -> None:
        if not 0 < retry_s < renew_s < duration_s:
            raise Invalid("lease", "the times do not fit", "retry_s < renew_s < duration_s is needed")
        self.identity = f"{identity}_{uuid.uuid4().hex[:12]}"
        """Of this process and no other: a new one with an old name must not take the lease for its own."""
        self.lost = asyncio.Event()
        self._api = api
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._duration_s = duration_s
        self._renew_s = renew_s
        self._retry_s = retry_s
        self._clock = clock
        self._wall = wall
        self._on_lost = on_lost
        self._held: Object | None = None
        """The lease as it was after our last write, while we lead."""
        self._until_s = _NEVER
        self._seen: Object | None = None
        self._seen_s = _NEVER
        self._renewing: asyncio.Task[None] | None = None
        self._last: datetime | None = None
        self._told = False

    @property
    def leads(self) -> bool:
        """From any thread."""
        return self._clock() < self._until_s

    async def acquire(self) -> None:
        """Returns when we lead, however long that takes. After a loss it may be called again."""
        await self._stop_renewing()
        self.lost.clear()
        while not self.leads:
            try:
                await self._try()
                self._told = False
            except (ApiRefused, ApiUnreachable) as error:
                self._tell_trouble(error)
            if not self.leads:
                # Not all at once, so that those who lose a race do not meet again.
                await asyncio.sleep(self._retry_s * random.uniform(0.8, 1.2))
        _log.info("%s leads", self.identity)
        self._renewing = asyncio.create_task(self._keep(), name=f"lease {self._name}")

    async def close(self) -> None:
        """Stops leading, and says so, so that nobody has to wait for the lease to run out."""
        await self._stop_renewing()
        self._until_s = _NEVER
        with contextlib.suppress(ApiRefused, ApiUnreachable, TimeoutError):
            async with asyncio.timeout(self._retry_s):
                while not await self._released():
                    pass  # a write of ours was still under way

    async def _released(self) -> bool:
        found = await self._read()
        if found["spec"].get("holderIdentity") != self.identity:
            return True
        try:
            # The shortest duration there is: who goes by it alone does not wait either.
            spec = {**found["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._now()}
            await self._write({**found, "spec": spec})
        except ApiRefused as error:
            if not error.is_conflict:
                raise
            return False
        return True

    # --- to get it ---

    async def _try(self) -> None:
        try:
            found = await self._read()
        except ApiRefused as error:
            if not error.is_missing:
                raise
            await self._try_to_create()
            return
        self._observe(found)
        if self._is_free(found["spec"]):
            await self._try_to_take(found)

    def _observe(self, found: Object) -> None:
        """What stands in it does not matter, only when it changes. After the answer: rather wait too long."""
        if self._seen is None or _version(found) != _version(self._seen):
            self._seen_s = self._clock()
        self._seen = found

    def _is_free(self, spec: Object) -> bool:
        holder = spec.get("holderIdentity")
        if not holder or holder == self.identity:
            return True  # ours: we wrote it, and no answer came
        promised_s = spec.get("leaseDurationSeconds") or 0
        return self._clock() - self._seen_s >= (promised_s if promised_s > 0 else self._duration_s)

    async def _try_to_create(self) -> None:
        began_s = self._clock()
        if self._seen is not None and not self._is_free(self._seen["spec"]):
            return  # deleted under its holder, who may not know yet
        metadata = {"name": self._name}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": self._spec(0)}
        with _lost_race():
            self._hold(await self._api.post(self._folder, lease, urgent=True), began_s)

    async def _try_to_take(self, found: Object) -> None:
        began_s = self._clock()
        transitions = found["spec"].get("leaseTransitions") or 0
        if found["spec"].get("holderIdentity") != self.identity:
            transitions += 1
        with _lost_race():
            self._hold(await self._write({**found, "spec": self._spec(transitions)}), began_s)

    def _spec(self, transitions: int) -> Object:
        now = self._now()
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._duration_s),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    def _hold(self, lease: Object, began_s: float) -> None:
        """Counted from before the request: the others count from when the server wrote it, or later."""
        self._held, self._until_s = lease, began_s + self._renew_s

    # --- to keep it ---

    async def _keep(self) -> None:
        why = f"it could not be renewed for {self._renew_s:g} s"
        try:
            await self._renew_while_leading()
        except _Lost as lost:
            why = str(lost)
        except Exception as error:
            _log.exception("renewing the lease %s", self._name)
            why = repr(error)
        self._until_s = _NEVER
        _log.warning("%s leads no more: %s", self.identity, why)
        self.lost.set()
        if self._on_lost is not None:
            self._on_lost(why)

    async def _renew_while_leading(self) -> None:
        while self.leads:
            await asyncio.sleep(min(self._retry_s, self._left_s()))
            try:
                # An answer that never comes must leave time for a second try.
                async with asyncio.timeout(min(self._left_s(), self._renew_s / 2)):
                    await self._renew()
                self._told = False
            except (ApiRefused, ApiUnreachable, TimeoutError) as error:
                self._tell_trouble(error)

    async def _renew(self) -> None:
        began_s = self._clock()
        try:
            renewed = await self._write(self._renewed())
        except ApiRefused as error:
            if not (error.is_conflict or error.is_missing):
                raise
            await self._look_who_holds_it()
            renewed = await self._write(self._renewed())
        self._hold(renewed, began_s)

    def _renewed(self) -> Object:
        assert self._held is not None
        return {**self._held, "spec": {**self._held["spec"], "renewTime": self._now()}}

    async def _look_who_holds_it(self) -> None:
        """Our own write may have been the other one, if its answer got lost; or somebody added a label."""
        try:
            found = await self._read()
        except ApiRefused as error:
            if error.is_missing:
                raise _Lost("the lease was deleted") from error
            raise
        holder = found["spec"].get("holderIdentity")
        if holder != self.identity:
            raise _Lost(f"{holder or 'nobody'} holds it")
        self._held = found

    # --- how ---

    async def _read(self) -> Object:
        return await self._api.get(f"{self._folder}/{self._name}", urgent=True)

    async def _write(self, lease: Object) -> Object:
        """Refused with a conflict if anybody wrote since we read: the version in it says so."""
        return await self._api.put(f"{self._folder}/{self._name}", lease, urgent=True)

    async def _stop_renewing(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
            self._renewing = None

    def _left_s(self) -> float:
        return max(0.0, self._until_s - self._clock())

    def _now(self) -> str:
        """Never one that was told before, whatever the clock on the wall does: a write that changes nothing does not
        show that we are alive."""
        now = self._wall()
        self._last = now if self._last is None or now > self._last else self._last + timedelta(microseconds=1)
        return self._last.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _tell_trouble(self, error: Exception) -> None:
        if not self._told:
            self._told = True
            _log.warning("the lease %s cannot be read or written: %s", self._name, error)


class _Lost(Exception):
    """Certain, not only late."""


@contextlib.contextmanager
def _lost_race() -> Iterator[None]:
    """A conflict means that another was faster, and that is all."""
    try:
        yield
    except ApiRefused as error:
        if not error.is_conflict:
            raise


def _version(lease: Object) -> str:
    return lease["metadata"]["resourceVersion"]
