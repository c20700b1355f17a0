"""GPU clients, a card and interference models for the tests of divide policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from gpusquad.model.job import Slo
from gpusquad.model.squad import (
    DividePolicy,
    DivideState,
    EffectiveRate,
    GpuClient,
    RequestStats,
    ShareableCard,
    Squad,
    solo_speed,
)
from gpusquad.model.units import WHOLE_MILLI

CARD = ShareableCard(groups=15, sms_per_group=8, sms=132)
LINEAR = ((250, 0.25), (500, 0.5), (750, 0.75), (1000, 1.0))
FLAT = ((125, 0.7), (250, 0.9), (1000, 1.0))


def sm_contention(client: GpuClient, share_milli: int, others: Sequence[tuple[GpuClient, int]]) -> float:
    """Clients compete only for SMs: one client alone has all of them, n clients without restriction an nth each."""
    total_milli = share_milli + sum(share for _, share in others)
    return solo_speed(client, share_milli * min(1.0, WHOLE_MILLI / total_milli))


def no_interference(client: GpuClient, share_milli: int, others: Sequence[tuple[GpuClient, int]]) -> float:
    """No interference at all."""
    return solo_speed(client, share_milli)


def with_rho(rho: float) -> EffectiveRate:
    """Each neighbour lowers the speed by ``rho`` times its share."""

    def effective(client: GpuClient, share_milli: int, others: Sequence[tuple[GpuClient, int]], /) -> float:
        speed = solo_speed(client, share_milli)
        for _, share in others:
            speed *= 1.0 - rho * share / WHOLE_MILLI
        return speed

    return effective


def client(slot: int, **changes) -> GpuClient:
    default = GpuClient(slot, f"t{slot}", curve=LINEAR, demand_us=20_000, kernel_us=50.0)
    return replace(default, **changes)


def service(slot: int, latency_us: int = 20_000, per_s: float = 40.0, work_us: float = 3000.0, **changes) -> GpuClient:
    requests = RequestStats(per_s=per_s, solo_per_s=1e6 / work_us, work_us=work_us)
    return client(slot, slo=Slo(latency_us=latency_us), requests=requests, **changes)


curves = st.floats(0.1, 1.0).map(
    lambda part: tuple((milli, min(1.0, milli / 1000 / part)) for milli in (125, 250, 500, 750, 1000))
)
slos = st.one_of(
    st.none(),
    st.builds(Slo, latency_us=st.integers(2000, 200_000)),
    st.builds(Slo, throughput_per_s=st.floats(1.0, 500.0)),
    st.builds(Slo, latency_us=st.integers(2000, 200_000), availability_ratio=st.floats(0.5, 1.0)),
)


@st.composite
def client_lists(draw: st.DrawFn, least: int = 0, most: int = 8) -> list[GpuClient]:
    """Lists of arbitrary clients in arbitrary slots."""
    slots = draw(st.lists(st.integers(0, 31), min_size=least, max_size=most, unique=True))
    return [
        GpuClient(
            slot,
            f"t{slot}",
            weight=draw(st.floats(0.0, 8.0)),
            priority=draw(st.integers(-1, 2)),
            slo=draw(slos),
            curve=draw(curves),
            remaining_us=draw(st.none() | st.integers(0, 10**9)),
            deadline_in_us=draw(st.none() | st.integers(-1000, 10**9)),
            attained_us=draw(st.integers(0, 10**8)),
            attainment=draw(st.none() | st.floats(0.0, 1.0)),
            demand_us=draw(st.integers(0, 20_000)),
            kernel_us=draw(st.floats(0.0, 3000.0)),
            is_idle=draw(st.booleans()),
            requests=draw(st.none() | st.builds(RequestStats, st.floats(0, 300), st.floats(0, 300), st.floats(0, 1e5))),
        )
        for slot in slots
    ]


def consecutive_squads(
    policy: DividePolicy,
    clients: Sequence[GpuClient],
    count: int,
    effective: EffectiveRate = sm_contention,
    state: DivideState | None = None,
) -> list[Squad]:
    """``count`` squads, each with the state of the one before. Running clients share the service, others get none."""
    squads, current, state = [], list(clients), state or DivideState()
    for _ in range(count):
        squad = policy.next_squad(current, CARD, effective, state)
        squads.append(squad)
        state = squad.state
        served = running_slots(squad, current)
        current = [
            replace(gpu_client, attained_us=gpu_client.attained_us + squad.length_us // len(served))
            if gpu_client.slot in served
            else gpu_client
            for gpu_client in current
        ]
    return squads


def running_slots(squad: Squad, clients: Sequence[GpuClient]) -> list[int]:
    """Slots of clients that are not idle and yield to no client that is not idle."""
    awake = [gpu_client.slot for gpu_client in clients if not gpu_client.is_idle]
    return [
        member.slot
        for member in squad.members
        if member.slot in awake and member.credit_us and not any(member.yield_to >> slot & 1 for slot in awake)
    ]
