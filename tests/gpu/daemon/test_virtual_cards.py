"""A card whose tenants are on virtual cards of it."""

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
from tests.policies.divide.snapshots import CARD, client, crowds, rivals

DIVIDES = registry.names("divide")


def mask(number: int, count: int) -> int:
    first, each = parts_of("GPU-a", count)[number - 1].of_groups(CARD.groups)
    return ((1 << each) - 1) << first


def on(name: str) -> VirtualCardPolicy:
    return VirtualCardPolicy(lambda: registry.create("divide", name))


@pytest.mark.parametrize("name", DIVIDES)
@settings(max_examples=25)
@given(clients=crowds(least=1), data=st.data())
def test_nobody_leaves_its_virtual_card_or_lends_to_another(name, clients, data):
    count = data.draw(st.integers(2, 5))
    clients = [replace(one, virtual_card_mask=mask(data.draw(st.integers(1, count)), count)) for one in clients]
    squad = on(name).next_squad(clients, CARD, rivals, DivideState())
    within = {one.slot: one.virtual_card_mask for one in clients}
    assert sorted(member.slot for member in squad.members) == sorted(within)
    for member in squad.members:
        assert member.groups & ~within[member.slot] == 0
        beside = sum(1 << slot for slot, other in within.items() if other == within[member.slot])
        assert member.neighbours & ~beside == 0


@pytest.mark.parametrize("name", DIVIDES)
@given(clients=crowds(least=1))
def test_without_virtual_cards_nothing_changes(name, clients):
    plain = registry.create("divide", name).next_squad(clients, CARD, rivals, DivideState())
    assert on(name).next_squad(clients, CARD, rivals, DivideState()) == plain


@pytest.mark.parametrize("name", DIVIDES)
def test_whoever_is_alone_on_a_virtual_card_is_not_gated_there(name):
    clients = [client(0, virtual_card_mask=mask(1, 2)), client(1, virtual_card_mask=mask(2, 2))]
    squad = on(name).next_squad(clients, CARD, rivals, DivideState())
    assert [(member.credit_us, member.neighbours) for member in squad.members] == [(UNGATED_US, 0)] * 2


def test_each_virtual_card_remembers_its_own_tenants():
    policy, half = on("slo"), mask(1, 2)
    clients = [
        client(0, virtual_card_mask=half),
        client(1, virtual_card_mask=half),
        client(2, virtual_card_mask=mask(2, 2)),
    ]
    state = DivideState()
    for _ in range(3):
        state = policy.next_squad(clients, CARD, rivals, state).state
    assert set(policy.states[half].get(SquadHistory).seen_us) == {clients[0].id, clients[1].id}
    policy.next_squad([replace(one, virtual_card_mask=0) for one in clients], CARD, rivals, state)
    assert policy.states == {}


def test_a_curve_is_over_the_virtual_card():
    seen = []

    class Looks:
        def next_squad(self, clients, card, effective, state):
            seen.extend(clients)
            return registry.create("divide", "equal").next_squad(clients, card, effective, state)

    part = mask(1, 3)  # 5 of 15 groups
    figures = RequestStats(solo_per_s=100.0, work_us=1000.0)
    one = client(0, virtual_card_mask=part, curve=((167, 0.3), (333, 0.5), (1000, 1.0)), requests=figures)
    VirtualCardPolicy(Looks).next_squad([one], CARD, rivals, DivideState())
    whole = solo_speed(one, CARD.share_milli(part.bit_count()))
    assert (seen[0].requests.solo_per_s, seen[0].requests.work_us) == pytest.approx((100.0 * whole, 1000.0 / whole))
    assert solo_speed(seen[0], 1000) == 1.0
    assert solo_speed(seen[0], 501) == pytest.approx(0.6, rel=0.02)
