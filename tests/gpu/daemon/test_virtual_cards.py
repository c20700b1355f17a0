"""Squads of a card whose clients are on virtual cards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusquad import registry
from gpusquad.gpu.daemon.virtual_cards import VirtualCardPolicy
from gpusquad.model.squad import UNGATED_US, DivideState, RequestStats, solo_speed
from gpusquad.model.virtual import parts_of
from gpusquad.policies.divide._squad_builder import SquadHistory
from tests.policies.divide.snapshots import CARD, client, client_lists, sm_contention

DIVIDES = registry.names("divide")


def mask(number: int, count: int) -> int:
    first, width = parts_of("GPU-a", count)[number - 1].of_groups(CARD.groups)
    return ((1 << width) - 1) << first


def virtual_card_policy(name: str) -> VirtualCardPolicy:
    return VirtualCardPolicy(lambda: registry.create("divide", name))


@pytest.mark.parametrize("name", DIVIDES)
@settings(max_examples=25)
@given(clients=client_lists(least=1), data=st.data())
def test_clients_stay_on_their_virtual_card_and_lend_only_there(name, clients, data):
    count = data.draw(st.integers(2, 5))
    clients = [replace(each, virtual_card_mask=mask(data.draw(st.integers(1, count)), count)) for each in clients]
    squad = virtual_card_policy(name).next_squad(clients, CARD, sm_contention, DivideState())
    within = {each.slot: each.virtual_card_mask for each in clients}
    assert sorted(member.slot for member in squad.members) == sorted(within)
    for member in squad.members:
        assert member.groups & ~within[member.slot] == 0
        beside = sum(1 << slot for slot, other in within.items() if other == within[member.slot])
        assert member.neighbours & ~beside == 0


@pytest.mark.parametrize("name", DIVIDES)
@given(clients=client_lists(least=1))
def test_policy_is_unchanged_without_virtual_cards(name, clients):
    plain = registry.create("divide", name).next_squad(clients, CARD, sm_contention, DivideState())
    assert virtual_card_policy(name).next_squad(clients, CARD, sm_contention, DivideState()) == plain


@pytest.mark.parametrize("name", DIVIDES)
def test_client_alone_on_a_virtual_card_is_not_gated(name):
    clients = [client(0, virtual_card_mask=mask(1, 2)), client(1, virtual_card_mask=mask(2, 2))]
    squad = virtual_card_policy(name).next_squad(clients, CARD, sm_contention, DivideState())
    assert [(member.credit_us, member.neighbours) for member in squad.members] == [(UNGATED_US, 0)] * 2


def test_each_virtual_card_has_its_own_policy_state():
    policy, half = virtual_card_policy("slo"), mask(1, 2)
    clients = [
        client(0, virtual_card_mask=half),
        client(1, virtual_card_mask=half),
        client(2, virtual_card_mask=mask(2, 2)),
    ]
    state = DivideState()
    for _ in range(3):
        state = policy.next_squad(clients, CARD, sm_contention, state).state
    assert set(policy.states[half].get(SquadHistory).seen_us) == {clients[0].id, clients[1].id}
    policy.next_squad([replace(each, virtual_card_mask=0) for each in clients], CARD, sm_contention, state)
    assert policy.states == {}


def test_speed_curve_is_scaled_to_the_virtual_card():
    seen = []

    class RecordingPolicy:
        def next_squad(self, clients, card, effective, state):
            seen.extend(clients)
            return registry.create("divide", "equal").next_squad(clients, card, effective, state)

    part = mask(1, 3)  # 5 of 15 groups
    stats = RequestStats(solo_per_s=100.0, work_us=1000.0)
    single = client(0, virtual_card_mask=part, curve=((167, 0.3), (333, 0.5), (1000, 1.0)), requests=stats)
    VirtualCardPolicy(RecordingPolicy).next_squad([single], CARD, sm_contention, DivideState())
    whole = solo_speed(single, CARD.share_milli(part.bit_count()))
    assert (seen[0].requests.solo_per_s, seen[0].requests.work_us) == pytest.approx((100.0 * whole, 1000.0 / whole))
    assert solo_speed(seen[0], 1000) == 1.0
    assert solo_speed(seen[0], 501) == pytest.approx(0.6, rel=0.02)
