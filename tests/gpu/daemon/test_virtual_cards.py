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
from tests.policies.divide.snapshots import CARD, crowds, rivals, tenant

DIVIDES = registry.names("divide")


def mask(number: int, count: int) -> int:
    first, each = parts_of("GPU-a", count)[number - 1].of_groups(CARD.groups)
    return ((1 << each) - 1) << first


def on(name: str) -> VirtualCardPolicy:
    return VirtualCardPolicy(lambda: registry.create("divide", name))


@pytest.mark.parametrize("name", DIVIDES)
@settings(max_examples=25)
@given(tenants=crowds(least=1), data=st.data())
def test_nobody_leaves_its_virtual_card_or_lends_to_another(name, tenants, data):
    count = data.draw(st.integers(2, 5))
    tenants = [replace(one, within=mask(data.draw(st.integers(1, count)), count)) for one in tenants]
    squad = on(name).next_squad(tenants, CARD, rivals, DivideState())
    within = {one.slot: one.within for one in tenants}
    assert sorted(member.slot for member in squad.members) == sorted(within)
    for member in squad.members:
        assert member.groups & ~within[member.slot] == 0
        beside = sum(1 << slot for slot, other in within.items() if other == within[member.slot])
        assert member.mates & ~beside == 0


@pytest.mark.parametrize("name", DIVIDES)
@given(tenants=crowds(least=1))
def test_without_virtual_cards_nothing_changes(name, tenants):
    plain = registry.create("divide", name).next_squad(tenants, CARD, rivals, DivideState())
    assert on(name).next_squad(tenants, CARD, rivals, DivideState()) == plain


@pytest.mark.parametrize("name", DIVIDES)
def test_whoever_is_alone_on_a_virtual_card_is_not_gated_there(name):
    tenants = [tenant(0, within=mask(1, 2)), tenant(1, within=mask(2, 2))]
    squad = on(name).next_squad(tenants, CARD, rivals, DivideState())
    assert [(member.credit_us, member.mates) for member in squad.members] == [(UNGATED_US, 0)] * 2


def test_each_virtual_card_remembers_its_own_tenants():
    policy, half = on("slo"), mask(1, 2)
    tenants = [tenant(0, within=half), tenant(1, within=half), tenant(2, within=mask(2, 2))]
    state = DivideState()
    for _ in range(3):
        state = policy.next_squad(tenants, CARD, rivals, state).state
    assert set(policy.states[half].seen_us) == {tenants[0].id, tenants[1].id}
    policy.next_squad([replace(one, within=0) for one in tenants], CARD, rivals, state)
    assert policy.states == {}


def test_a_curve_is_over_the_virtual_card():
    seen = []

    class Looks:
        def next_squad(self, tenants, card, effective, state):
            seen.extend(tenants)
            return registry.create("divide", "equal").next_squad(tenants, card, effective, state)

    part = mask(1, 3)  # 5 of 15 groups
    figures = RequestStats(solo_per_s=100.0, work_us=1000.0)
    one = tenant(0, within=part, curve=((167, 0.3), (333, 0.5), (1000, 1.0)), requests=figures)
    VirtualCardPolicy(Looks).next_squad([one], CARD, rivals, DivideState())
    whole = solo_speed(one, CARD.share_milli(part.bit_count()))
    assert (seen[0].requests.solo_per_s, seen[0].requests.work_us) == pytest.approx((100.0 * whole, 1000.0 / whole))
    assert solo_speed(seen[0], 1000) == 1.0
    assert solo_speed(seen[0], 501) == pytest.approx(0.6, rel=0.02)
