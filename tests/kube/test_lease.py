"""Leader election against a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.client.lease import Leadership
from gpusquad.kube.access import load_access
from gpusquad.kube.objects import Object
from tests.kube.plane import ControlPlane

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
PATIENCE_S = 60.0
SHORT = {"duration_s": 3.0, "renew_s": 2.0, "retry_s": 0.2}


@contextlib.asynccontextmanager
async def contenders(plane: ControlPlane, name: str, count: int, **more: object) -> AsyncIterator[list[Leadership]]:
    """Each with a connection of its own."""
    async with contextlib.AsyncExitStack() as stack:
        access = load_access(plane.kubeconfig())
        made = []
        for number in range(count):
            api = await stack.enter_async_context(AsyncKubeApi(access))
            made.append(Leadership(api, "default", name, f"c{number}", **SHORT, **more))  # type: ignore[arg-type]
            stack.push_async_callback(made[-1].close)
        yield made


def lease(plane: ControlPlane, name: str) -> Object:
    return plane.admin.get(f"{LEASES}/{name}")["spec"]


def test_exactly_one_of_three_leads_and_the_next_when_it_lets_go(plane: ControlPlane):
    async def run() -> None:
        async with contenders(plane, "three", 3) as all_of_them:
            waiting = {asyncio.create_task(one.acquire()): one for one in all_of_them}
            led: list[Leadership] = []
            async with asyncio.timeout(PATIENCE_S):
                while waiting:
                    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                    assert len(done) == 1
                    leader = waiting.pop(done.pop())
                    led.append(leader)
                    assert [one for one in all_of_them if one.leads] == [leader]
                    assert lease(plane, "three")["holderIdentity"] == leader.identity
                    await leader.close()
                    assert not leader.lost.is_set()
            assert set(led) == set(all_of_them)
        assert lease(plane, "three")["holderIdentity"] == ""

    asyncio.run(run())


class Frozen:
    """In the place of an Api: no request of its user comes through, and no answer either."""

    def __getattr__(self, name: str):
        async def hang(*_: object, **__: object) -> None:
            await asyncio.Event().wait()

        return hang


def test_a_leader_that_stops_renewing_is_followed_after_it_has_stopped(plane: ControlPlane):
    async def run() -> None:
        async with contenders(plane, "frozen", 2) as (first, second):
            await asyncio.wait_for(first.acquire(), PATIENCE_S)
            waiting = asyncio.create_task(second.acquire())
            first._api = Frozen()  # type: ignore[assignment]
            async with asyncio.timeout(PATIENCE_S):
                await first.lost.wait()
                assert not waiting.done()
                await waiting
            assert (first.leads, second.leads) == (False, True)
            assert lease(plane, "frozen")["leaseTransitions"] == 1

    asyncio.run(run())


def test_a_lease_with_times_from_another_age_is_judged_by_whether_it_changes(plane: ControlPlane):
    """One renewed in the far future is not held for ever, and one from the past is not free at once."""
    for year in (2199, 1999):
        name = f"year-{year}"
        moment = datetime(year, 1, 1, tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": "gone", "leaseDurationSeconds": 2, "renewTime": moment, "acquireTime": moment}
        plane.admin.post(LEASES, {"metadata": {"name": name}, "spec": spec})

        async def run(name: str = name) -> None:
            async with contenders(plane, name, 1) as (only,):
                loop = asyncio.get_running_loop()
                began_s = loop.time()
                await asyncio.wait_for(only.acquire(), PATIENCE_S)
                assert loop.time() - began_s >= 2.0

        asyncio.run(run())


def test_who_loses_the_lease_by_force_stops(plane: ControlPlane):
    async def run() -> None:
        async with contenders(plane, "taken", 1) as (only,):
            await asyncio.wait_for(only.acquire(), PATIENCE_S)
            plane.admin.patch(f"{LEASES}/taken", {"spec": {"holderIdentity": "thief"}})
            await asyncio.wait_for(only.lost.wait(), PATIENCE_S)
            assert not only.leads
        assert lease(plane, "taken")["holderIdentity"] == "thief"

    asyncio.run(run())
