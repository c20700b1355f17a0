"""Tests of leader election: never two leaders, and soon one, for any network faults and wall clocks."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.client.lease import Leadership
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.objects import Object
from gpusquad.model.errors import Invalid
from tests.engines.kubernetes.virtual_time import run_virtually

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Store:
    """One lease on a server that checks versions as the real one does."""

    def __init__(self) -> None:
        self.lease: Object | None = None
        self._version = itertools.count(1)

    def get(self) -> Object:
        if self.lease is None:
            raise ApiRefused(404, "NotFound")
        return _copy(self.lease)

    def post(self, lease: Object) -> Object:
        if self.lease is not None:
            raise ApiRefused(409, "AlreadyExists")
        return self._store(lease)

    def put(self, lease: Object) -> Object:
        now = self.get()
        if lease["metadata"]["resourceVersion"] != now["metadata"]["resourceVersion"]:
            raise ApiRefused(409, "Conflict")
        return now if lease == now else self._store(lease)  # an unchanged object gets no new version

    def label(self) -> None:
        """Another client changes the lease object."""
        assert self.lease is not None
        self._store(self.lease)

    @property
    def holder(self) -> str:
        return self.get()["spec"]["holderIdentity"]

    def _store(self, lease: Object) -> Object:
        self.lease = _copy(lease)
        self.lease["metadata"]["resourceVersion"] = str(next(self._version))
        return self.get()


def _copy(lease: Object) -> Object:
    return {**lease, "metadata": dict(lease["metadata"]), "spec": dict(lease["spec"])}


Delivery = tuple[float, float, str]
"""One request: seconds to the server, seconds back, and its fault."""
NO_FAULT: Delivery = (0.01, 0.01, "")


class Connection:
    """A contender's connection to the store."""

    def __init__(self, store: Store, deliveries: Iterable[Delivery] = ()) -> None:
        self._store = store
        self._deliveries = iter(deliveries)
        self.is_down = False

    async def get(self, path: str, *, urgent: bool) -> Object:
        return await self._send(self._store.get)

    async def post(self, path: str, content: Object, *, urgent: bool) -> Object:
        return await self._send(lambda: self._store.post(content))

    async def put(self, path: str, content: Object, *, urgent: bool) -> Object:
        return await self._send(lambda: self._store.put(content))

    async def _send(self, request: Callable[[], Object]) -> Object:
        """A cancelled request continues and may be carried out late."""
        in_flight = asyncio.create_task(self._carry(request))
        in_flight.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(in_flight)

    async def _carry(self, request: Callable[[], Object]) -> Object:
        there_s, back_s, fault = next(self._deliveries, NO_FAULT)
        await asyncio.sleep(there_s)
        if self.is_down or fault == "lost on the way":
            raise ApiUnreachable("lost")
        if fault == "refused":
            raise ApiRefused(500, "InternalError")
        answer = request()
        await asyncio.sleep(back_s)
        if fault == "answer lost":
            raise ApiUnreachable("lost")
        return answer


def contender(connection: Connection, name: str, wall: Callable[[], datetime] = lambda: NOW, **more: Any) -> Leadership:
    """A contender whose clock has its own start."""
    loop, start_s = asyncio.get_running_loop(), sum(map(ord, name)) * 1e4
    return Leadership(
        cast(AsyncKubeApi, connection),
        "default",
        "gpusquad",
        name,
        clock=lambda: loop.time() - start_s,
        wall=wall,
        **more,
    )


def now_s() -> float:
    return asyncio.get_running_loop().time()


def test_first_contender_leads_and_the_second_waits():
    async def run() -> None:
        store = Store()
        first, second = contender(Connection(store), "first"), contender(Connection(store), "second")
        await first.acquire()
        acquiring = asyncio.create_task(second.acquire())
        await asyncio.sleep(120)
        assert (first.leads, second.leads, acquiring.done()) == (True, False, False)
        assert store.holder == first.identity
        acquiring.cancel()
        await first.close()

    run_virtually(run())


def test_disconnected_leader_stops_before_the_next_one_starts():
    async def run() -> None:
        store = Store()
        connection = Connection(store)
        losses: list[str] = []
        first, second = contender(connection, "first", on_lost=losses.append), contender(Connection(store), "second")
        await first.acquire()
        acquiring = asyncio.create_task(second.acquire())
        await asyncio.sleep(60)
        connection.is_down, down_s = True, now_s()
        await first.lost.wait()
        lost_s = now_s()
        assert losses == ["no renewal for 10 s"]
        assert not first.leads
        assert not acquiring.done()
        await acquiring
        assert 8 <= lost_s - down_s <= 10.1
        assert 13 <= now_s() - down_s <= 20
        await second.close()

    run_virtually(run())


def test_frozen_leader_does_not_lead_when_it_resumes():
    """Its tasks did not run, but its clock advanced."""

    async def run() -> None:
        store, frozen_s = Store(), 0.0
        loop = asyncio.get_running_loop()
        first = Leadership(
            cast(AsyncKubeApi, Connection(store)),
            "n",
            "l",
            "first",
            clock=lambda: loop.time() + frozen_s,
            wall=lambda: NOW,
        )
        await first.acquire()
        assert first.leads
        frozen_s = 11.0
        assert not first.leads
        await first.lost.wait()

    run_virtually(run())


@pytest.mark.parametrize("skew", [timedelta(days=3650), timedelta(days=-3650), timedelta()])
def test_election_does_not_depend_on_wall_clocks(skew: timedelta):
    """Even if it stands still, each renewal is a change."""

    async def run() -> None:
        store = Store()
        connection = Connection(store)
        first, second = contender(connection, "first", wall=lambda: NOW + skew), contender(Connection(store), "second")
        await first.acquire()
        acquiring = asyncio.create_task(second.acquire())
        await asyncio.sleep(100)
        assert first.leads
        assert not acquiring.done()
        connection.is_down, down_s = True, now_s()
        await acquiring
        assert now_s() - down_s <= 20
        await second.close()

    run_virtually(run())


def test_closed_leader_is_replaced_at_once():
    async def run() -> None:
        store = Store()
        first, second = contender(Connection(store), "first"), contender(Connection(store), "second")
        await first.acquire()
        acquiring = asyncio.create_task(second.acquire())
        await asyncio.sleep(30)
        closed_s = now_s()
        await first.close()
        assert not first.leads
        await acquiring
        assert now_s() - closed_s <= 2.5
        assert not first.lost.is_set()
        assert store.get()["spec"]["leaseTransitions"] == 1
        await second.close()

    run_virtually(run())


def test_close_during_a_renewal_releases_the_lease():
    async def run() -> None:
        store = Store()
        first = contender(Connection(store, [NO_FAULT, NO_FAULT, (0.0, 3.0, "")]), "first")
        await first.acquire()
        version = store.get()["metadata"]["resourceVersion"]
        while store.get()["metadata"]["resourceVersion"] == version:
            await asyncio.sleep(0.1)
        await first.close()  # the renewal is written, and its answer is still in flight
        assert store.holder == ""

    run_virtually(run())


def test_close_is_retried_when_a_late_renewal_interferes():
    async def run() -> None:
        store = Store()
        late, slow_read = (0.5, 0.0, ""), (0.0, 1.0, "")
        first = contender(Connection(store, [NO_FAULT, NO_FAULT, late, slow_read]), "first")
        await first.acquire()
        await asyncio.sleep(2.2)
        await first.close()  # reads, then the renewal arrives, then its own write is refused
        assert store.holder == ""

    run_virtually(run())


def test_late_answer_does_not_extend_the_lease():
    """Other contenders count from the time of the write."""

    async def run() -> None:
        store = Store()
        connection = Connection(store, [NO_FAULT, (0.0, 9.0, "")])
        first = contender(connection, "first")
        start_s = now_s()
        await first.acquire()
        connection.is_down = True
        await first.lost.wait()
        assert now_s() - start_s <= 10.1

    run_virtually(run())


def test_close_of_a_contender_that_never_led_changes_nothing():
    async def run() -> None:
        store = Store()
        first, second = contender(Connection(store), "first"), contender(Connection(store), "second")
        await second.close()
        await first.acquire()
        await second.close()
        assert store.holder == first.identity
        await first.close()

    run_virtually(run())


def test_leader_keeps_the_lease_when_others_change_its_labels():
    async def run() -> None:
        store = Store()
        first = contender(Connection(store), "first")
        await first.acquire()
        for _ in range(10):
            store.label()
            await asyncio.sleep(5)
        assert first.leads
        await first.close()

    run_virtually(run())


def test_leader_keeps_the_lease_when_answers_are_lost():
    async def run() -> None:
        store = Store()
        first = contender(
            Connection(store, [NO_FAULT, NO_FAULT, *[(0.0, 0.0, "answer lost"), NO_FAULT, NO_FAULT, NO_FAULT] * 5]),
            "first",
        )
        await first.acquire()
        await asyncio.sleep(60)
        assert first.leads
        await first.close()

    run_virtually(run())


@pytest.mark.parametrize(("change", "why"), [("taken", "somebody holds it"), ("deleted", "the lease was deleted")])
def test_leader_stops_at_once_when_its_lease_is_taken_or_deleted(change: str, why: str):
    async def run() -> None:
        store, losses = Store(), list[str]()
        first = contender(Connection(store), "first", on_lost=losses.append)
        await first.acquire()
        taken = store.get()
        taken["spec"]["holderIdentity"] = "somebody"
        start_s = now_s()
        if change == "taken":
            store.put(taken)
        else:
            store.lease = None
        await first.lost.wait()
        assert now_s() - start_s <= 2.5
        assert losses == [why]

    run_virtually(run())


def test_deleted_lease_is_not_acquired_before_the_holder_stopped():
    async def run() -> None:
        store = Store()
        connection = Connection(store)
        first, second = contender(connection, "first"), contender(Connection(store), "second")
        await first.acquire()
        acquiring = asyncio.create_task(second.acquire())
        await asyncio.sleep(5)
        connection.is_down = True
        store.lease = None
        await first.lost.wait()
        assert not acquiring.done()
        await acquiring
        await second.close()

    run_virtually(run())


def test_lease_can_be_acquired_again_after_a_loss():
    async def run() -> None:
        store = Store()
        connection = Connection(store)
        first = contender(connection, "first")
        await first.acquire()
        connection.is_down = True
        await first.lost.wait()
        connection.is_down = False
        await first.acquire()
        assert (first.leads, first.lost.is_set()) == (True, False)
        await first.close()

    run_virtually(run())


def test_contenders_with_the_same_name_are_distinct():
    async def run() -> None:
        store = Store()
        first, second = contender(Connection(store), "same"), contender(Connection(store), "same")
        await first.acquire()
        acquiring = asyncio.create_task(second.acquire())
        await asyncio.sleep(60)
        assert (first.leads, acquiring.done()) == (True, False)
        acquiring.cancel()
        await first.close()

    run_virtually(run())


def test_unsafe_lease_times_are_rejected():
    with pytest.raises(Invalid, match="retry_s < renew_s < duration_s"):
        Leadership(cast(AsyncKubeApi, None), "n", "l", "x", duration_s=10, renew_s=10)


def test_renewals_differ_when_the_wall_clock_stands_still():
    """After a lost renewal the next one must differ from the stored lease; otherwise others see no renewal."""

    async def run() -> None:
        store = Store()
        lost_renewal = (40.0, 0.0, "")
        leader = contender(Connection(store, [NO_FAULT, NO_FAULT, lost_renewal]), "one")
        await leader.acquire()
        before = store.get()["metadata"]["resourceVersion"]
        await asyncio.sleep(9.5)  # the first renewal times out, the second one arrives
        assert leader.leads
        assert store.get()["metadata"]["resourceVersion"] != before
        await leader.close()

    run_virtually(run())


delays_s = st.floats(0.0, 12.0)
deliveries = st.one_of(
    st.just(NO_FAULT),
    st.tuples(delays_s, delays_s, st.sampled_from(["", "", "lost on the way", "answer lost", "refused"])),
    st.tuples(st.just(40.0), st.just(0.0), st.just("")),
)


@given(st.lists(st.lists(deliveries, max_size=10), min_size=2, max_size=3), st.randoms(use_true_random=False))
def test_at_most_one_leader_at_any_time_and_soon_one(connections: list[list[Delivery]], random: Any):
    async def run() -> None:
        store = Store()
        contenders = [
            contender(Connection(store, _replay(connection)), f"c{number}")
            for number, connection in enumerate(connections)
        ]
        tasks = [asyncio.create_task(_lead_repeatedly(contender_n, contenders)) for contender_n in contenders]
        for _ in range(30):
            await asyncio.sleep(10 * random.random())
            assert sum(contender_n.leads for contender_n in contenders) <= 1
        # From here on no connection has faults.
        await asyncio.sleep(max(map(_total_s, connections)) + 60)
        assert sum(contender_n.leads for contender_n in contenders) == 1
        for task in tasks:
            assert not task.done(), task.exception()
            task.cancel()
        for contender_n in contenders:
            await contender_n.close()

    run_virtually(run())


async def _lead_repeatedly(leader: Leadership, contenders: list[Leadership]) -> None:
    while True:
        await leader.acquire()
        assert [other for other in contenders if other.leads] in ([leader], [])
        await leader.lost.wait()


def _replay(connection: list[Delivery]) -> Iterator[Delivery]:
    yield from connection


def _total_s(connection: list[Delivery]) -> float:
    return sum(there_s + back_s + 3.0 for there_s, back_s, _ in connection)
