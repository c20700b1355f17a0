"""Every divide keeps one contract."""

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
from tests.policies.divide.snapshots import CARD, client, crowds, rivals, running, service, squads_in_a_row, with_rho

DIVIDES = registry.names("divide")
OURS = {"auto", "equal", "guaranteed", "hybrid", "jct", "priority", "slo"}
BOUND = 60
"""Squads within which everybody who wants the card has credit: 50, and a few for others who are due as well."""
each = pytest.mark.parametrize("name", DIVIDES)


def test_ours_are_there():
    assert set(DIVIDES) >= OURS


@each
@settings(max_examples=25)
@given(clients=crowds(), rho=st.floats(0.0, 0.6))
def test_a_squad_makes_sense(name, clients, rho):
    before = copy.deepcopy(clients)
    policy = registry.create("divide", name)
    squad = policy.next_squad(clients, CARD, with_rho(rho), DivideState())
    assert clients == before
    assert squad == policy.next_squad(clients, CARD, with_rho(rho), DivideState()), "the same question, another answer"
    assert sorted(member.slot for member in squad.members) == sorted(one.slot for one in clients)
    assert MIN_SQUAD_US <= squad.length_us <= MAX_SQUAD_US
    assert squad.why
    assert squad.configuration in ("unrestricted", "strict", "semi-spatial", "temporal")
    for member in squad.members:
        assert 0 <= member.groups < 1 << CARD.groups
        assert 0 <= member.credit_us <= UNGATED_US
        assert not (member.neighbours | member.yield_to) >> member.slot & 1, "nobody is its own mate"
        assert not member.yield_to & ~member.neighbours, "who yields must see to whom"
        assert member.restricted_us == 0 or (member.groups and member.restricted_us <= squad.length_us)


@each
@settings(max_examples=25)
@given(clients=crowds(least=1))
def test_somebody_who_wants_the_card_may_run(name, clients):
    squad = registry.create("divide", name).next_squad(clients, CARD, rivals, DivideState())
    awake = {one.slot for one in clients if not one.is_idle} or {one.slot for one in clients}
    assert any(
        not any(member.yield_to >> slot & 1 for slot in awake) for member in squad.members if member.slot in awake
    )
    assert all(member.credit_us > 0 for member in squad.members)


@each
@settings(max_examples=25)
@given(clients=crowds(least=2), rho=st.floats(0.0, 0.9))
def test_of_two_at_most_one_yields_to_the_other(name, clients, rho):
    """Nor do three in a ring: all would stand still for ever."""
    squad = registry.create("divide", name).next_squad(clients, CARD, with_rho(rho), DivideState())
    left = {member.slot: member.yield_to for member in squad.members}
    while left:
        free = [slot for slot, first in left.items() if not any(first >> other & 1 for other in left)]
        assert free, f"{left} stand still for each other"
        for slot in free:
            del left[slot]


@each
@settings(max_examples=25)
@given(clients=crowds(least=2))
def test_who_sleeps_can_begin_at_once(name, clients):
    squad = registry.create("divide", name).next_squad(clients, CARD, rivals, DivideState())
    if any(not one.is_idle for one in clients):
        for one in clients:
            if one.is_idle:
                member = squad.of(one.slot)
                assert member is not None
                assert member.credit_us > 0
                assert member.groups == 0


@each
@pytest.mark.parametrize(
    ("sleeper", "is_minded"),
    [
        (client(1, is_idle=True, idle_us=900_000), True),
        (client(1, is_idle=True, idle_us=1_100_000), False),
        (service(1, is_idle=True, idle_us=3_600_000_000), True),
    ],
    ids=["naps", "sleeps", "has a latency target"],
)
def test_whoever_is_awake_alone_can_stand_still_for_those_who_may_wake_soon(name, sleeper, is_minded):
    """For others it would pay all the time."""
    squad = registry.create("divide", name).next_squad([client(0), sleeper], CARD, rivals, DivideState())
    assert (squad.members[0].yield_to == 1 << 1) == is_minded
    assert squad.members[0].groups == 0


@each
@settings(max_examples=25)
@given(clients=crowds(least=2))
def test_groups_are_one_tenants_own(name, clients):
    """Except where more have to be put up than there are groups for them; and no group is nobody's."""
    squad = registry.create("divide", name).next_squad(clients, CARD, rivals, DivideState())
    masks = [member.groups for member in squad.members if member.groups]
    assert all(a == b or not a & b for a, b in combinations(masks, 2))
    awake = {one.slot for one in clients if not one.is_idle} or {one.slot for one in clients}
    running = [member for member in squad.members if member.slot in awake and member.credit_us]
    if all(member.groups for member in running):
        used = reduce(or_, (member.groups for member in running))
        assert used == (1 << CARD.groups) - 1, "a group that nobody may use is a bubble"


@each
def test_alone_it_is_held_by_nothing(name):
    for idle in (False, True):
        squad = registry.create("divide", name).next_squad([client(3, is_idle=idle)], CARD, rivals, DivideState())
        (member,) = squad.members
        assert (member.groups, member.credit_us, member.neighbours) == (0, UNGATED_US, 0)


@each
def test_of_several_nobody_is_taken_to_be_alone(name):
    """Without mates, mask and credit a tenant is not followed, and others would see it idle."""
    clients = [client(0), client(1, is_idle=True)]
    squad = registry.create("divide", name).next_squad(clients, CARD, rivals, DivideState())
    assert all(member.neighbours or member.groups or member.credit_us != UNGATED_US for member in squad.members)


@each
def test_nobody_at_all(name):
    assert registry.create("divide", name).next_squad([], CARD, rivals, DivideState()).members == ()


@each
@settings(max_examples=8)
@given(clients=crowds(least=2, most=5))
def test_nobody_starves(name, clients):
    squads = squads_in_a_row(StarvationGuard(registry.create("divide", name)), clients, 2 * BOUND)
    for one in clients:
        served = [at for at, squad in enumerate(squads) if one.is_idle or one.slot in running(squad, clients)]
        longest = max(b - a for a, b in zip([-1, *served], [*served, len(squads)], strict=True))
        assert longest <= BOUND, f"{one} waited for {longest} squads"


@each
def test_the_same_question_again_moves_nobody(name):
    clients = [client(0, curve=((250, 0.8), (1000, 1.0))), client(1, curve=((250, 0.9), (1000, 1.0))), client(2)]
    squads = squads_in_a_row(registry.create("divide", name), clients, 30, with_rho(0.1))
    masks = [tuple(member.groups for member in squad.members) for squad in squads if squad.configuration == "strict"]
    moves = sum(a != b for a, b in pairwise(masks))
    assert moves <= len(masks) // 4


@each
def test_who_leaves_is_forgotten(name):
    policy = registry.create("divide", name)
    first = policy.next_squad([client(0), client(1), client(2)], CARD, rivals, DivideState())
    state = policy.next_squad([client(0), client(1)], CARD, rivals, first.state).state
    history = state.get(SquadHistory)
    kept_by_client = (
        state.get(LearnedWeights).weights, state.get(ServiceLags).lags_us,
        history.waited, history.groups, history.seen_us,
    )  # fmt: skip
    for kept in kept_by_client:
        assert "t2" not in kept


@each
def test_more_tenants_than_groups(name):
    small = ShareableCard(groups=2, sms_per_group=8)
    squad = registry.create("divide", name).next_squad(
        [client(slot) for slot in range(5)], small, rivals, DivideState()
    )
    assert all(member.groups < 4 for member in squad.members)
    assert any(member.credit_us for member in squad.members)
