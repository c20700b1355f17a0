"""Leader election with a Lease: https://kubernetes.io/docs/concepts/architecture/leases/.

Clocks of different machines are never compared. A leader stops if it could not renew the lease for `renew_s` by its own
clock. The other replicas wait until the lease has not changed for `duration_s`, which is longer, by theirs.
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
    """Includes the time in which the machine sleeps: a leader that wakes up must see that its lease has expired."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Leadership:
    """`await acquire()`, lead while `leads`, and `await close()` to let another replica lead at once.

    `lost` is set, and `on_lost` called, in the loop thread before another replica may lead. A frozen process learns of
    the loss only when it runs again, so check `leads`, which reads the clock, right before an action of the leader. If
    a user deletes the lease, another replica may lead before the leader has noticed, within `retry_s`.
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
            raise Invalid("lease", "the durations are inconsistent", "use retry_s < renew_s < duration_s")
        self.identity = f"{identity}_{uuid.uuid4().hex[:12]}"
        """Unique to this process: a new process with the same host name must not take the lease for its own."""
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
        """The lease after our last write, while we lead."""
        self._until_s = _NEVER
        self._seen: Object | None = None
        self._seen_s = _NEVER
        self._renewing: asyncio.Task[None] | None = None
        self._last: datetime | None = None
        self._is_logged = False

    @property
    def leads(self) -> bool:
        """Any thread may read it."""
        return self._clock() < self._until_s

    async def acquire(self) -> None:
        """Returns when this replica leads. May be called again after a loss."""
        await self._stop_renewing()
        self.lost.clear()
        while not self.leads:
            try:
                await self._try()
                self._is_logged = False
            except (ApiRefused, ApiUnreachable) as error:
                self._log_once(error)
            if not self.leads:
                # Randomised, so that replicas that lost a race do not collide again.
                await asyncio.sleep(self._retry_s * random.uniform(0.8, 1.2))
        _log.info("%s leads", self.identity)
        self._renewing = asyncio.create_task(self._keep(), name=f"lease {self._name}")

    async def close(self) -> None:
        """Stops leading and releases the lease, so that no replica has to wait for it to expire."""
        await self._stop_renewing()
        self._until_s = _NEVER
        with contextlib.suppress(ApiRefused, ApiUnreachable, TimeoutError):
            async with asyncio.timeout(self._retry_s):
                while not await self._released():
                    pass  # one of our writes was still in flight

    async def _released(self) -> bool:
        found = await self._read()
        if found["spec"].get("holderIdentity") != self.identity:
            return True
        try:
            # The shortest duration, so that clients that only look at it do not wait either.
            spec = {**found["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._now()}
            await self._write({**found, "spec": spec})
        except ApiRefused as error:
            if not error.is_conflict:
                raise
            return False
        return True

    # --- acquire ---

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
        """Only the time of the last change matters, not the content. Measured after the answer, to err on the long
        side."""
        if self._seen is None or _version(found) != _version(self._seen):
            self._seen_s = self._clock()
        self._seen = found

    def _is_free(self, spec: Object) -> bool:
        holder = spec.get("holderIdentity")
        if not holder or holder == self.identity:
            return True  # our own write, whose answer was lost
        promised_s = spec.get("leaseDurationSeconds") or 0
        return self._clock() - self._seen_s >= (promised_s if promised_s > 0 else self._duration_s)

    async def _try_to_create(self) -> None:
        began_s = self._clock()
        if self._seen is not None and not self._is_free(self._seen["spec"]):
            return  # deleted while held, and its holder may not know yet
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
        """Counts from before the request; other replicas count from the server's write or later."""
        self._held, self._until_s = lease, began_s + self._renew_s

    # --- renew ---

    async def _keep(self) -> None:
        why = f"no renewal for {self._renew_s:g} s"
        try:
            await self._renew_while_leading()
        except _LeaseLost as lost:
            why = str(lost)
        except Exception as error:
            _log.exception("cannot renew the lease %s", self._name)
            why = repr(error)
        self._until_s = _NEVER
        _log.warning("%s no longer leads: %s", self.identity, why)
        self.lost.set()
        if self._on_lost is not None:
            self._on_lost(why)

    async def _renew_while_leading(self) -> None:
        while self.leads:
            await asyncio.sleep(min(self._retry_s, self._left_s()))
            try:
                # A request without an answer must leave time for a second try.
                async with asyncio.timeout(min(self._left_s(), self._renew_s / 2)):
                    await self._renew()
                self._is_logged = False
            except (ApiRefused, ApiUnreachable, TimeoutError) as error:
                self._log_once(error)

    async def _renew(self) -> None:
        began_s = self._clock()
        try:
            renewed = await self._write(self._renewed())
        except ApiRefused as error:
            if not (error.is_conflict or error.is_missing):
                raise
            await self._check_holder()
            renewed = await self._write(self._renewed())
        self._hold(renewed, began_s)

    def _renewed(self) -> Object:
        assert self._held is not None
        return {**self._held, "spec": {**self._held["spec"], "renewTime": self._now()}}

    async def _check_holder(self) -> None:
        """The conflicting write may have been ours, if its answer was lost, or a label may have been added."""
        try:
            found = await self._read()
        except ApiRefused as error:
            if error.is_missing:
                raise _LeaseLost("the lease was deleted") from error
            raise
        holder = found["spec"].get("holderIdentity")
        if holder != self.identity:
            raise _LeaseLost(f"{holder or 'no replica'} holds it")
        self._held = found

    # --- requests ---

    async def _read(self) -> Object:
        return await self._api.get(f"{self._folder}/{self._name}", urgent=True)

    async def _write(self, lease: Object) -> Object:
        """Refused with a conflict if the lease has changed since we read it."""
        return await self._api.put(f"{self._folder}/{self._name}", lease, urgent=True)

    async def _stop_renewing(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
            self._renewing = None

    def _left_s(self) -> float:
        return max(0.0, self._until_s - self._clock())

    def _now(self) -> str:
        """Strictly increasing, whatever the wall clock does: a write without a change would not show that we are
        alive."""
        now = self._wall()
        self._last = now if self._last is None or now > self._last else self._last + timedelta(microseconds=1)
        return self._last.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _log_once(self, error: Exception) -> None:
        if not self._is_logged:
            self._is_logged = True
            _log.warning("cannot read or write the lease %s: %s", self._name, error)


class _LeaseLost(Exception):
    """The lease is certainly lost, not only late."""


@contextlib.contextmanager
def _lost_race() -> Iterator[None]:
    """Ignores a conflict: another replica was faster."""
    try:
        yield
    except ApiRefused as error:
        if not error.is_conflict:
            raise


def _version(lease: Object) -> str:
    return lease["metadata"]["resourceVersion"]
