"""Tests of leader election against a real API server."""

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
WAIT_S = 60.0
SHORT = {"duration_s": 3.0, "renew_s": 2.0, "retry_s": 0.2}


@contextlib.asynccontextmanager
async def candidates(plane: ControlPlane, name: str, count: int, **options: object) -> AsyncIterator[list[Leadership]]:
    """Candidates for the same lease, each with its own connection."""
    async with contextlib.AsyncExitStack() as stack:
        access = load_access(plane.kubeconfig())
        candidates_made = []
        for number in range(count):
            api = await stack.enter_async_context(AsyncKubeApi(access))
            candidates_made.append(Leadership(api, "default", name, f"c{number}", **SHORT, **options))  # type: ignore[arg-type]
            stack.push_async_callback(candidates_made[-1].close)
        yield candidates_made


def lease(plane: ControlPlane, name: str) -> Object:
    return plane.admin.get(f"{LEASES}/{name}")["spec"]


def test_one_replica_leads_and_another_follows_when_it_releases_the_lease(plane: ControlPlane):
    async def run() -> None:
        async with candidates(plane, "three", 3) as replicas:
            waiting = {asyncio.create_task(replica.acquire()): replica for replica in replicas}
            leaders: list[Leadership] = []
            async with asyncio.timeout(WAIT_S):
                while waiting:
                    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                    assert len(done) == 1
                    leader = waiting.pop(done.pop())
                    leaders.append(leader)
                    assert [replica for replica in replicas if replica.leads] == [leader]
                    assert lease(plane, "three")["holderIdentity"] == leader.identity
                    await leader.close()
                    assert not leader.lost.is_set()
            assert set(leaders) == set(replicas)
        assert lease(plane, "three")["holderIdentity"] == ""

    asyncio.run(run())


class HangingApi:
    """API client whose requests never get an answer."""

    def __getattr__(self, name: str):
        async def hang(*_: object, **__: object) -> None:
            await asyncio.Event().wait()

        return hang


def test_replica_takes_over_after_the_leader_stopped_renewing(plane: ControlPlane):
    async def run() -> None:
        async with candidates(plane, "frozen", 2) as (first, second):
            await asyncio.wait_for(first.acquire(), WAIT_S)
            waiting = asyncio.create_task(second.acquire())
            first._api = HangingApi()  # type: ignore[assignment]
            async with asyncio.timeout(WAIT_S):
                await first.lost.wait()
                assert not waiting.done()
                await waiting
            assert (first.leads, second.leads) == (False, True)
            assert lease(plane, "frozen")["leaseTransitions"] == 1

    asyncio.run(run())


def test_lease_expires_by_its_changes_when_its_times_are_wrong(plane: ControlPlane):
    """A renew time in the future does not hold the lease indefinitely; one in the past does not free it at once."""
    for year in (2199, 1999):
        name = f"year-{year}"
        moment = datetime(year, 1, 1, tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": "gone", "leaseDurationSeconds": 2, "renewTime": moment, "acquireTime": moment}
        plane.admin.post(LEASES, {"metadata": {"name": name}, "spec": spec})

        async def run(name: str = name) -> None:
            async with candidates(plane, name, 1) as (only,):
                loop = asyncio.get_running_loop()
                start_s = loop.time()
                await asyncio.wait_for(only.acquire(), WAIT_S)
                assert loop.time() - start_s >= 2.0

        asyncio.run(run())


def test_leader_stops_when_the_lease_is_taken_away(plane: ControlPlane):
    async def run() -> None:
        async with candidates(plane, "taken", 1) as (only,):
            await asyncio.wait_for(only.acquire(), WAIT_S)
            plane.admin.patch(f"{LEASES}/taken", {"spec": {"holderIdentity": "thief"}})
            await asyncio.wait_for(only.lost.wait(), WAIT_S)
            assert not only.leads
        assert lease(plane, "taken")["holderIdentity"] == "thief"

    asyncio.run(run())
