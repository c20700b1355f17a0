"""Priority levels of clients that run side by side."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gpusquad import registry
from gpusquad.gpu.daemon.table_rates import TableRates
from gpusquad.model.job import Slo
from gpusquad.model.squad import MAX_LEVEL, DivideState, GpuClient, RequestStats, ShareableCard
from gpusquad.policies.divide._levels import levels
from gpusquad.policies.divide._squad_builder import SquadHistory

SHORT = GpuClient(0, "short", kernel_us=33.0, demand_us=10_000, app="short", rate_beside={"long": 0.30})
LONG = GpuClient(1, "long", kernel_us=88.0, demand_us=10_000, app="long", rate_beside={"short": 0.81})
CARD = ShareableCard()


def clients_with_kernels(**kernels_us: float) -> list[GpuClient]:
    return [GpuClient(slot, name, kernel_us=us) for slot, (name, us) in enumerate(kernels_us.items())]


def test_short_kernels_get_higher_levels_than_long_ones() -> None:
    assert levels(clients_with_kernels(a=100, b=60), {}) == {"a": 0, "b": 0}
    assert levels(clients_with_kernels(a=100, b=49), {}) == {"a": 0, "b": MAX_LEVEL}
    assert levels(clients_with_kernels(a=100, b=60, c=49, d=10, e=0.001), {}) == {
        "a": 0,
        "b": 0,
        "c": 1,
        "d": 2,
        "e": 4,
    }


def test_client_with_unknown_kernel_length_is_not_raised() -> None:
    assert levels(clients_with_kernels(a=100, b=0), {}) == {"a": 0, "b": 0}
    assert levels(clients_with_kernels(a=0, b=0), {}) == {"a": 0, "b": 0}


def clients_with_remaining(**left_us: int | None) -> list[GpuClient]:
    return [GpuClient(slot, name, kernel_us=50, remaining_us=us) for slot, (name, us) in enumerate(left_us.items())]


def test_client_with_less_remaining_is_raised_by_remaining_for_similar_kernels() -> None:
    clients = clients_with_remaining(first=4_000_000, second=8_000_000)
    assert levels(clients, {}) == {"first": 0, "second": 0}
    assert levels(clients, {}, by_remaining=True) == {"first": MAX_LEVEL, "second": 0}
    assert levels(clients_with_remaining(first=5_000_000, second=8_000_000), {}, by_remaining=True) == {
        "first": 0,
        "second": 0,
    }
    assert levels(clients_with_remaining(first=0, second=8_000_000), {}, by_remaining=True) == {
        "first": MAX_LEVEL,
        "second": 0,
    }
    short_kernels = [clients[0], replace(clients[1], kernel_us=20)]
    assert levels(short_kernels, {}, by_remaining=True) == {"first": 0, "second": MAX_LEVEL}, (
        "short kernels take precedence"
    )


def test_client_is_not_raised_above_an_unknown_end_or_an_slo() -> None:
    first, second = clients_with_remaining(first=4_000_000, second=8_000_000)
    unknown = replace(second, remaining_us=None)
    with_slo = replace(second, slo=Slo(throughput_per_s=10.0))
    for other in (unknown, with_slo):
        assert levels([first, other], {}, by_remaining=True) == {"first": 0, "second": 0}


def test_hybrid_and_jct_use_the_remaining_time_and_equal_does_not() -> None:
    first, second = clients_with_remaining(first=4_000_000, second=8_000_000)
    clients = [replace(first, app="a", rate_beside={"b": 0.8}), replace(second, app="b", rate_beside={"a": 0.8})]
    for name, level in (("hybrid", MAX_LEVEL), ("jct", MAX_LEVEL), ("equal", 0)):
        squad = registry.create("divide", name).next_squad(clients, CARD, TableRates(), DivideState())
        assert squad.configuration == "unrestricted"
        assert [member.level for member in squad.members] == [level, 0], name


def test_client_with_less_remaining_stays_raised_until_its_end() -> None:
    hybrid, state = registry.create("divide", "hybrid"), DivideState()
    first, second = clients_with_remaining(first=4_000_000, second=8_000_000)
    for passed_us in range(0, 4_000_000, 100_000):
        current = [replace(first, remaining_us=4_000_000 - passed_us, kernel_us=60, app="a", rate_beside={"b": 0.8}),
               replace(second, remaining_us=8_000_000 - passed_us // 2, app="b", rate_beside={"a": 0.8})]  # fmt: skip
        squad = hybrid.next_squad(current, CARD, TableRates(), state)
        state = squad.state
        assert [member.level for member in squad.members] == [MAX_LEVEL, 0], passed_us


def test_higher_priority_takes_precedence_over_short_kernels() -> None:
    short, long = clients_with_kernels(short=10, long=100)
    assert levels([short, replace(long, priority=1)], {}) == {"short": 0, "long": MAX_LEVEL}
    assert levels([replace(short, priority=-1), long], {}) == {"short": 0, "long": MAX_LEVEL}


def test_new_priority_applies_at_once() -> None:
    short, long = clients_with_kernels(short=10, long=100)
    before = levels([short, long], {})
    assert before == {"short": MAX_LEVEL, "long": 0}
    assert levels([short, replace(long, priority=1)], before) == {"short": 0, "long": MAX_LEVEL}


def test_raised_client_stays_raised_until_its_kernels_are_longer() -> None:
    before = {"a": 1, "b": 0}
    assert levels(clients_with_kernels(a=80, b=88), before) == before
    assert levels(clients_with_kernels(a=90, b=88), before) == {"a": 0, "b": 0}
    assert levels(clients_with_kernels(a=40, b=88, c=88), before) == {"a": 4, "b": 0, "c": 0}


def test_hybrid_raises_short_kernels_beside_long_ones_and_reports_it() -> None:
    squad = registry.create("divide", "hybrid").next_squad([SHORT, LONG], CARD, TableRates(), DivideState())
    assert squad.configuration == "unrestricted"
    assert [member.level for member in squad.members] == [MAX_LEVEL, 0]
    assert "blocks of short go first" in squad.why
    assert squad.state.get(SquadHistory).levels == {"short": MAX_LEVEL, "long": 0}


def test_idle_service_has_a_level_above_raised_clients() -> None:
    service = GpuClient(2, "service", slo=Slo(latency_us=5000), kernel_us=500, is_idle=True)
    squad = registry.create("divide", "hybrid").next_squad([SHORT, LONG, service], CARD, TableRates(), DivideState())
    short, long, asleep = (member.level for member in squad.members)
    assert asleep > short > long == 0


def test_idle_client_and_its_neighbour_keep_their_levels() -> None:
    hybrid = registry.create("divide", "hybrid")
    state = hybrid.next_squad([SHORT, LONG], CARD, TableRates(), DivideState()).state
    idle_short = replace(SHORT, is_idle=True, demand_us=0)
    squad = hybrid.next_squad([idle_short, LONG], CARD, TableRates(), state)
    assert [member.level for member in squad.members] == [MAX_LEVEL, 0]
    assert squad.state.get(SquadHistory).levels == state.get(SquadHistory).levels


def test_short_kernels_are_not_raised_above_a_client_with_a_higher_claim() -> None:
    heavy = replace(LONG, weight=10.0)
    squad = registry.create("divide", "hybrid").next_squad([SHORT, heavy], CARD, TableRates(), DivideState())
    assert squad.configuration != "unrestricted" or not any(member.level for member in squad.members)
    shorter = replace(LONG, remaining_us=4_000_000, rate_beside={"short": 0.9})
    longer = replace(SHORT, remaining_us=8_000_000, rate_beside={"long": 0.5})
    squad = registry.create("divide", "jct").next_squad([longer, shorter], CARD, TableRates(), DivideState())
    assert squad.members[0].level <= squad.members[1].level


def test_service_has_the_highest_level_and_levels_are_stable() -> None:
    stats = RequestStats(per_s=100, work_us=1000, count=100, latency_us=3000)
    service = GpuClient(2, "service", slo=Slo(latency_us=5000), kernel_us=20, busy_ratio=0.9, requests=stats)
    slo, card, state, found = registry.create("divide", "slo"), replace(CARD, has_priorities=True), DivideState(), []
    short, long = replace(SHORT, rate_beside={"long": 0.67}), replace(LONG, rate_beside={"short": 0.56})
    for kernel_us in (43.0, 45.0) * 5:  # about half of the kernel length of the other
        squad = slo.next_squad([replace(short, kernel_us=kernel_us), long, service], card, TableRates(), state)
        state, found = squad.state, [*found, [member.level for member in squad.members]]
    assert all(row == found[0] for row in found)
    assert found[0] == [MAX_LEVEL - 1, 0, MAX_LEVEL]
    assert squad.why.count("blocks of short go first") == 1


def test_service_is_raised_above_a_client_that_cannot_yield() -> None:
    service = GpuClient(2, "service", slo=Slo(latency_us=5000), kernel_us=500)
    rank = replace(LONG, uses_collectives=True)
    slo = registry.create("divide", "slo")
    squad = slo.next_squad([SHORT, rank, service], CARD, TableRates(), DivideState())
    assert squad.members[1].yield_to >> 2 & 1
    assert squad.members[2].level > squad.members[1].level
    without = slo.next_squad([SHORT, LONG, service], CARD, TableRates(), DivideState())
    assert without.members[2].level == 0


def test_client_that_cannot_yield_is_not_raised_above_the_service() -> None:
    service = GpuClient(2, "service", slo=Slo(latency_us=5000), kernel_us=500)
    rank = replace(SHORT, uses_collectives=True)
    squad = registry.create("divide", "slo").next_squad([rank, LONG, service], CARD, TableRates(), DivideState())
    assert squad.members[0].yield_to >> 2 & 1
    assert (squad.members[2].level, squad.members[0].level) == (MAX_LEVEL, 0)
    assert squad.why.count("go first") <= 1, squad.why


@given(st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=6))
def test_client_is_never_raised_above_shorter_kernels(kernels_us: list[float]) -> None:
    clients = [GpuClient(slot, f"t{slot}", kernel_us=us) for slot, us in enumerate(kernels_us)]
    found = levels(clients, {})
    assert all(0 <= level <= MAX_LEVEL for level in found.values())
    assert all(
        found[gpu_client.id] <= found[other.id]
        for gpu_client in clients
        for other in clients
        if 0 < other.kernel_us <= gpu_client.kernel_us
    )
    assert levels(clients, found) == found
