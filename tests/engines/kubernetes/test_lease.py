"""Never two leaders, whatever the network does and whatever the clocks on the wall say; and never none for long."""

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
    """One lease at a server, which minds versions as the real one does."""

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
        return now if lease == now else self._store(lease)  # what changes nothing gets no new version

    def label(self) -> None:
        """Somebody else writes into it."""
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


Fate = tuple[float, float, str]
"""Of one request: seconds there, seconds back, and what goes wrong."""
WELL: Fate = (0.01, 0.01, "")


class Line:
    """One contender's connection to the store."""

    def __init__(self, store: Store, fates: Iterable[Fate] = ()) -> None:
        self._store = store
        self._fates = iter(fates)
        self.is_cut = False

    async def get(self, path: str, *, urgent: bool) -> Object:
        return await self._send(self._store.get)

    async def post(self, path: str, content: Object, *, urgent: bool) -> Object:
        return await self._send(lambda: self._store.post(content))

    async def put(self, path: str, content: Object, *, urgent: bool) -> Object:
        return await self._send(lambda: self._store.put(content))

    async def _send(self, act: Callable[[], Object]) -> Object:
        """A request that nobody waits for any more goes on all the same, and may be carried out late."""
        under_way = asyncio.create_task(self._carry(act))
        under_way.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(under_way)

    async def _carry(self, act: Callable[[], Object]) -> Object:
        there_s, back_s, wrong = next(self._fates, WELL)
        await asyncio.sleep(there_s)
        if self.is_cut or wrong == "lost on the way":
            raise ApiUnreachable("lost")
        if wrong == "refused":
            raise ApiRefused(500, "InternalError")
        answer = act()
        await asyncio.sleep(back_s)
        if wrong == "answer lost":
            raise ApiUnreachable("lost")
        return answer


def contender(line: Line, name: str, wall: Callable[[], datetime] = lambda: NOW, **more: Any) -> Leadership:
    """Whose clock began to count at another time than everybody else's."""
    loop, began_s = asyncio.get_running_loop(), sum(map(ord, name)) * 1e4
    return Leadership(
        cast(AsyncKubeApi, line), "default", "gpusquad", name, clock=lambda: loop.time() - began_s, wall=wall, **more
    )


def now_s() -> float:
    return asyncio.get_running_loop().time()


def test_the_first_leads_and_the_second_waits():
    async def run() -> None:
        store = Store()
        first, second = contender(Line(store), "first"), contender(Line(store), "second")
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(120)
        assert (first.leads, second.leads, waiting.done()) == (True, False, False)
        assert store.holder == first.identity
        waiting.cancel()
        await first.close()

    run_virtually(run())


def test_who_is_cut_off_stops_before_the_other_starts():
    async def run() -> None:
        store = Store()
        line = Line(store)
        told: list[str] = []
        first, second = contender(line, "first", on_lost=told.append), contender(Line(store), "second")
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(60)
        line.is_cut, cut_s = True, now_s()
        await first.lost.wait()
        lost_s = now_s()
        assert told == ["no renewal for 10 s"]
        assert not first.leads
        assert not waiting.done()
        await waiting
        assert 8 <= lost_s - cut_s <= 10.1
        assert 13 <= now_s() - cut_s <= 20
        await second.close()

    run_virtually(run())


def test_who_was_frozen_does_not_lead_when_it_wakes():
    """Its tasks have not run, so nobody has told it; the clock has gone on."""

    async def run() -> None:
        store, frozen_s = Store(), 0.0
        loop = asyncio.get_running_loop()
        first = Leadership(
            cast(AsyncKubeApi, Line(store)), "n", "l", "first", clock=lambda: loop.time() + frozen_s, wall=lambda: NOW
        )
        await first.acquire()
        assert first.leads
        frozen_s = 11.0
        assert not first.leads
        await first.lost.wait()

    run_virtually(run())


@pytest.mark.parametrize("skew", [timedelta(days=3650), timedelta(days=-3650), timedelta()])
def test_what_the_clock_on_the_wall_says_does_not_matter(skew: timedelta):
    """Even one that stands still: each renewal is a change all the same."""

    async def run() -> None:
        store = Store()
        line = Line(store)
        first, second = contender(line, "first", wall=lambda: NOW + skew), contender(Line(store), "second")
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(100)
        assert first.leads
        assert not waiting.done()
        line.is_cut, cut_s = True, now_s()
        await waiting
        assert now_s() - cut_s <= 20
        await second.close()

    run_virtually(run())


def test_a_clean_end_lets_the_other_lead_at_once():
    async def run() -> None:
        store = Store()
        first, second = contender(Line(store), "first"), contender(Line(store), "second")
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(30)
        closed_s = now_s()
        await first.close()
        assert not first.leads
        await waiting
        assert now_s() - closed_s <= 2.5
        assert not first.lost.is_set()
        assert store.get()["spec"]["leaseTransitions"] == 1
        await second.close()

    run_virtually(run())


def test_closing_while_a_renewal_is_under_way_still_lets_go():
    async def run() -> None:
        store = Store()
        first = contender(Line(store, [WELL, WELL, (0.0, 3.0, "")]), "first")
        await first.acquire()
        version = store.get()["metadata"]["resourceVersion"]
        while store.get()["metadata"]["resourceVersion"] == version:
            await asyncio.sleep(0.1)
        await first.close()  # its renewal has been written, and the answer is still on its way
        assert store.holder == ""

    run_virtually(run())


def test_closing_again_when_a_late_renewal_comes_in_between():
    async def run() -> None:
        store = Store()
        late, slow_read = (0.5, 0.0, ""), (0.0, 1.0, "")
        first = contender(Line(store, [WELL, WELL, late, slow_read]), "first")
        await first.acquire()
        await asyncio.sleep(2.2)
        await first.close()  # reads, then the renewal arrives, then its own write is refused
        assert store.holder == ""

    run_virtually(run())


def test_an_answer_that_comes_late_gives_no_more_time():
    """The others have counted from when it was written."""

    async def run() -> None:
        store = Store()
        line = Line(store, [WELL, (0.0, 9.0, "")])
        first = contender(line, "first")
        began_s = now_s()
        await first.acquire()
        line.is_cut = True
        await first.lost.wait()
        assert now_s() - began_s <= 10.1

    run_virtually(run())


def test_who_never_led_lets_go_of_nothing():
    async def run() -> None:
        store = Store()
        first, second = contender(Line(store), "first"), contender(Line(store), "second")
        await second.close()
        await first.acquire()
        await second.close()
        assert store.holder == first.identity
        await first.close()

    run_virtually(run())


def test_a_label_on_the_lease_costs_nobody_the_lead():
    async def run() -> None:
        store = Store()
        first = contender(Line(store), "first")
        await first.acquire()
        for _ in range(10):
            store.label()
            await asyncio.sleep(5)
        assert first.leads
        await first.close()

    run_virtually(run())


def test_a_renewal_whose_answer_is_lost_costs_nobody_the_lead():
    async def run() -> None:
        store = Store()
        first = contender(Line(store, [WELL, WELL, *[(0.0, 0.0, "answer lost"), WELL, WELL, WELL] * 5]), "first")
        await first.acquire()
        await asyncio.sleep(60)
        assert first.leads
        await first.close()

    run_virtually(run())


@pytest.mark.parametrize(("what", "why"), [("taken", "somebody holds it"), ("deleted", "the lease was deleted")])
def test_who_finds_another_in_its_place_stops_at_once(what: str, why: str):
    async def run() -> None:
        store, told = Store(), list[str]()
        first = contender(Line(store), "first", on_lost=told.append)
        await first.acquire()
        taken = store.get()
        taken["spec"]["holderIdentity"] = "somebody"
        began_s = now_s()
        if what == "taken":
            store.put(taken)
        else:
            store.lease = None
        await first.lost.wait()
        assert now_s() - began_s <= 2.5
        assert told == [why]

    run_virtually(run())


def test_a_lease_deleted_under_its_holder_is_not_taken_before_its_time():
    async def run() -> None:
        store = Store()
        line = Line(store)
        first, second = contender(line, "first"), contender(Line(store), "second")
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(5)
        line.is_cut = True
        store.lease = None
        await first.lost.wait()
        assert not waiting.done()
        await waiting
        await second.close()

    run_virtually(run())


def test_after_a_loss_it_can_be_led_again():
    async def run() -> None:
        store = Store()
        line = Line(store)
        first = contender(line, "first")
        await first.acquire()
        line.is_cut = True
        await first.lost.wait()
        line.is_cut = False
        await first.acquire()
        assert (first.leads, first.lost.is_set()) == (True, False)
        await first.close()

    run_virtually(run())


def test_two_of_one_name_are_two():
    async def run() -> None:
        store = Store()
        first, second = contender(Line(store), "same"), contender(Line(store), "same")
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(60)
        assert (first.leads, waiting.done()) == (True, False)
        waiting.cancel()
        await first.close()

    run_virtually(run())


def test_times_that_could_make_two_leaders_are_refused():
    with pytest.raises(Invalid, match="retry_s < renew_s < duration_s"):
        Leadership(cast(AsyncKubeApi, None), "n", "l", "x", duration_s=10, renew_s=10)


def test_a_clock_on_the_wall_that_stands_still_repeats_no_time():
    """A renewal that got lost must not make the next one equal to what is stored: others would see no sign of life."""

    async def run() -> None:
        store = Store()
        lost = (40.0, 0.0, "")
        one = contender(Line(store, [WELL, WELL, lost]), "one")
        await one.acquire()
        before = store.get()["metadata"]["resourceVersion"]
        await asyncio.sleep(9.5)  # the first renewal is given up, the second one arrives
        assert one.leads
        assert store.get()["metadata"]["resourceVersion"] != before
        await one.close()

    run_virtually(run())


delays_s = st.floats(0.0, 12.0)
fates = st.one_of(
    st.just(WELL),
    st.tuples(delays_s, delays_s, st.sampled_from(["", "", "lost on the way", "answer lost", "refused"])),
    st.tuples(st.just(40.0), st.just(0.0), st.just("")),
)


@given(st.lists(st.lists(fates, max_size=10), min_size=2, max_size=3), st.randoms(use_true_random=False))
def test_never_two_leaders_and_soon_one(lines: list[list[Fate]], dice: Any):
    async def run() -> None:
        store = Store()
        all_of_them = [contender(Line(store, _played(line)), f"c{number}") for number, line in enumerate(lines)]
        leaders = [asyncio.create_task(_lead_again_and_again(one, all_of_them)) for one in all_of_them]
        for _ in range(30):
            await asyncio.sleep(10 * dice.random())
            assert sum(one.leads for one in all_of_them) <= 1
        # By now at the latest all connections are well for ever.
        await asyncio.sleep(max(map(_total_s, lines)) + 60)
        assert sum(one.leads for one in all_of_them) == 1
        for task in leaders:
            assert not task.done(), task.exception()
            task.cancel()
        for one in all_of_them:
            await one.close()

    run_virtually(run())


async def _lead_again_and_again(one: Leadership, all_of_them: list[Leadership]) -> None:
    while True:
        await one.acquire()
        assert [other for other in all_of_them if other.leads] in ([one], [])
        await one.lost.wait()


def _played(line: list[Fate]) -> Iterator[Fate]:
    yield from line


def _total_s(line: list[Fate]) -> float:
    return sum(there_s + back_s + 3.0 for there_s, back_s, _ in line)
