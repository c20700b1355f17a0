"""The contract of every divide policy."""

from __future__ import annotations

import copy
from functools import reduce
from itertools import combinations, pairwise
from operator import or_

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusquad import registry
from gpusquad.gpu.daemon.starvation import StarvationGuard
from gpusquad.model.squad import MAX_SQUAD_US, MIN_SQUAD_US, UNGATED_US, DivideState, ShareableCard
from gpusquad.policies.divide._lags import ServiceLags
from gpusquad.policies.divide._squad_builder import SquadHistory
from gpusquad.policies.divide._weights import LearnedWeights
from tests.policies.divide.snapshots import (
    CARD,
    client,
    client_lists,
    consecutive_squads,
    running_slots,
    service,
    sm_contention,
    with_rho,
)

DIVIDES = registry.names("divide")
BUILT_IN = {"auto", "equal", "guaranteed", "hybrid", "jct", "priority", "slo"}
MAX_WAIT_SQUADS = 60
"""Squads within which every active client runs: 50, and a few for other clients that are due as well."""
every_divide = pytest.mark.parametrize("name", DIVIDES)


def test_built_in_divides_are_registered():
    assert set(DIVIDES) >= BUILT_IN


@every_divide
@settings(max_examples=25)
@given(clients=client_lists(), rho=st.floats(0.0, 0.6))
def test_squad_is_valid_and_deterministic(name, clients, rho):
    before = copy.deepcopy(clients)
    policy = registry.create("divide", name)
    squad = policy.next_squad(clients, CARD, with_rho(rho), DivideState())
    assert clients == before
    assert squad == policy.next_squad(clients, CARD, with_rho(rho), DivideState()), (
        "the same input gives the same squad"
    )
    assert sorted(member.slot for member in squad.members) == sorted(gpu_client.slot for gpu_client in clients)
    assert MIN_SQUAD_US <= squad.length_us <= MAX_SQUAD_US
    assert squad.why
    assert squad.configuration in ("unrestricted", "strict", "semi-spatial", "temporal")
    for member in squad.members:
        assert 0 <= member.groups < 1 << CARD.groups
        assert 0 <= member.credit_us <= UNGATED_US
        assert not (member.neighbours | member.yield_to) >> member.slot & 1, "no client is its own neighbour"
        assert not member.yield_to & ~member.neighbours, "a client yields only to its neighbours"
        assert member.restricted_us == 0 or (member.groups and member.restricted_us <= squad.length_us)


@every_divide
@settings(max_examples=25)
@given(clients=client_lists(least=1))
def test_some_active_client_can_run(name, clients):
    squad = registry.create("divide", name).next_squad(clients, CARD, sm_contention, DivideState())
    awake = {gpu_client.slot for gpu_client in clients if not gpu_client.is_idle} or {
        gpu_client.slot for gpu_client in clients
    }
    assert any(
        not any(member.yield_to >> slot & 1 for slot in awake) for member in squad.members if member.slot in awake
    )
    assert all(member.credit_us > 0 for member in squad.members)


@every_divide
@settings(max_examples=25)
@given(clients=client_lists(least=2), rho=st.floats(0.0, 0.9))
def test_clients_never_yield_in_a_cycle(name, clients, rho):
    """In a cycle of two or more clients all would wait indefinitely."""
    squad = registry.create("divide", name).next_squad(clients, CARD, with_rho(rho), DivideState())
    yield_masks = {member.slot: member.yield_to for member in squad.members}
    while yield_masks:
        runnable = [slot for slot, mask in yield_masks.items() if not any(mask >> other & 1 for other in yield_masks)]
        assert runnable, f"{yield_masks} wait for each other"
        for slot in runnable:
            del yield_masks[slot]


@every_divide
@settings(max_examples=25)
@given(clients=client_lists(least=2))
def test_idle_client_has_credit_and_no_partition(name, clients):
    squad = registry.create("divide", name).next_squad(clients, CARD, sm_contention, DivideState())
    if any(not gpu_client.is_idle for gpu_client in clients):
        for gpu_client in clients:
            if gpu_client.is_idle:
                member = squad.of(gpu_client.slot)
                assert member is not None
                assert member.credit_us > 0
                assert member.groups == 0


@every_divide
@pytest.mark.parametrize(
    ("idle_client", "is_yielded_to"),
    [
        (client(1, is_idle=True, idle_us=900_000), True),
        (client(1, is_idle=True, idle_us=1_100_000), False),
        (service(1, is_idle=True, idle_us=3_600_000_000), True),
    ],
    ids=["idle briefly", "idle for long", "has a latency SLO"],
)
def test_only_active_client_yields_to_clients_that_may_wake_soon(name, idle_client, is_yielded_to):
    """Yielding costs time, so it is not done for clients that are idle for long."""
    squad = registry.create("divide", name).next_squad([client(0), idle_client], CARD, sm_contention, DivideState())
    assert (squad.members[0].yield_to == 1 << 1) == is_yielded_to
    assert squad.members[0].groups == 0


@every_divide
@settings(max_examples=25)
@given(clients=client_lists(least=2))
def test_partitions_are_disjoint_or_equal_and_cover_the_card(name, clients):
    """Partitions are equal only if there are more clients than groups. Every group belongs to a client."""
    squad = registry.create("divide", name).next_squad(clients, CARD, sm_contention, DivideState())
    masks = [member.groups for member in squad.members if member.groups]
    assert all(a == b or not a & b for a, b in combinations(masks, 2))
    awake = {gpu_client.slot for gpu_client in clients if not gpu_client.is_idle} or {
        gpu_client.slot for gpu_client in clients
    }
    running = [member for member in squad.members if member.slot in awake and member.credit_us]
    if all(member.groups for member in running):
        used = reduce(or_, (member.groups for member in running))
        assert used == (1 << CARD.groups) - 1, "no group may be unused"


@every_divide
def test_single_client_is_not_restricted(name):
    for is_idle in (False, True):
        squad = registry.create("divide", name).next_squad(
            [client(3, is_idle=is_idle)], CARD, sm_contention, DivideState()
        )
        (member,) = squad.members
        assert (member.groups, member.credit_us, member.neighbours) == (0, UNGATED_US, 0)


@every_divide
def test_client_with_neighbours_is_never_treated_as_alone(name):
    """A client without neighbours, mask and credit is not tracked, and others would see it as idle."""
    clients = [client(0), client(1, is_idle=True)]
    squad = registry.create("divide", name).next_squad(clients, CARD, sm_contention, DivideState())
    assert all(member.neighbours or member.groups or member.credit_us != UNGATED_US for member in squad.members)


@every_divide
def test_squad_without_clients_is_empty(name):
    assert registry.create("divide", name).next_squad([], CARD, sm_contention, DivideState()).members == ()


@every_divide
@settings(max_examples=8)
@given(clients=client_lists(least=2, most=5))
def test_every_active_client_is_served_within_the_bound(name, clients):
    squads = consecutive_squads(StarvationGuard(registry.create("divide", name)), clients, 2 * MAX_WAIT_SQUADS)
    for gpu_client in clients:
        served_at = [
            at
            for at, squad in enumerate(squads)
            if gpu_client.is_idle or gpu_client.slot in running_slots(squad, clients)
        ]
        longest = max(b - a for a, b in zip([-1, *served_at], [*served_at, len(squads)], strict=True))
        assert longest <= MAX_WAIT_SQUADS, f"{gpu_client} waited for {longest} squads"


@every_divide
def test_partitions_seldom_change_for_the_same_clients(name):
    clients = [client(0, curve=((250, 0.8), (1000, 1.0))), client(1, curve=((250, 0.9), (1000, 1.0))), client(2)]
    squads = consecutive_squads(registry.create("divide", name), clients, 30, with_rho(0.1))
    masks = [tuple(member.groups for member in squad.members) for squad in squads if squad.configuration == "strict"]
    moves = sum(a != b for a, b in pairwise(masks))
    assert moves <= len(masks) // 4


@every_divide
def test_state_of_a_client_that_left_is_dropped(name):
    policy = registry.create("divide", name)
    mask = policy.next_squad([client(0), client(1), client(2)], CARD, sm_contention, DivideState())
    state = policy.next_squad([client(0), client(1)], CARD, sm_contention, mask.state).state
    history = state.get(SquadHistory)
    stored_by_client = (
        state.get(LearnedWeights).weights, state.get(ServiceLags).lags_us,
        history.waited, history.groups, history.seen_us,
    )  # fmt: skip
    for stored in stored_by_client:
        assert "t2" not in stored


@every_divide
def test_more_clients_than_groups_are_handled(name):
    small_card = ShareableCard(groups=2, sms_per_group=8)
    squad = registry.create("divide", name).next_squad(
        [client(slot) for slot in range(5)], small_card, sm_contention, DivideState()
    )
    assert all(member.groups < 4 for member in squad.members)
    assert any(member.credit_us for member in squad.members)
