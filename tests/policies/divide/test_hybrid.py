"""Hybrid finds the best split, and its weights follow the goals within bounds."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Slo
from gpusquad.model.squad import DivideState, RequestStats, ShareableCard
from gpusquad.policies.divide._search import best_counts, hill_climbed_counts, total
from gpusquad.policies.divide._weights import MAX_WEIGHT, MIN_WEIGHT, updated
from gpusquad.policies.divide.hybrid import Hybrid
from tests.policies.divide.snapshots import (
    CARD,
    FLAT,
    LINEAR,
    client,
    crowds,
    running,
    service,
    squads_in_a_row,
    with_rho,
)

SMALL = ShareableCard(groups=8, sms_per_group=8)


def all_splits(count, groups):
    return [split for split in product(range(1, groups + 1), repeat=count) if sum(split) == groups]


@settings(max_examples=40)
@given(clients=crowds(least=2, most=4), rho=st.floats(0.0, 0.9))
def test_the_exact_split_is_that_of_trying_all(clients, rho):
    policy, effective = Hybrid(), with_rho(rho)
    weights = updated(clients, {}, 0.05, 0.0)
    shares = [SMALL.share_milli(count) for count in range(SMALL.groups + 1)]

    def utility(one, share, others):
        return policy.utility(one, effective(one, share, others), weights[one.id])

    best = max(total(clients, split, shares, utility) for split in all_splits(len(clients), SMALL.groups))
    found, counts = best_counts(clients, SMALL.groups, shares, utility)
    assert found == pytest.approx(best, abs=1e-9)
    assert total(clients, counts, shares, utility) == pytest.approx(best, abs=1e-9)
    climbed, counts = hill_climbed_counts(clients, SMALL.groups, shares, utility)
    assert climbed <= best + 1e-9
    assert sum(counts) == SMALL.groups


def test_the_squad_is_the_best_of_all_configurations():
    clients = [client(0, curve=LINEAR), client(1, curve=FLAT)]
    squad = Hybrid().next_squad(clients, CARD, with_rho(0.4), DivideState())
    assert squad.configuration == "strict"
    own, other = (member.groups.bit_count() for member in squad.members)
    assert own > other, "who gains by SMs gets them"
    assert own + other == CARD.groups


def test_where_sharing_ruins_both_they_take_turns():
    two = [client(0), client(1)]
    squads = squads_in_a_row(Hybrid(), two, 4, lambda one, share, others: 0.1 if others else 1.0)
    assert {squad.configuration for squad in squads} == {"temporal"}
    served = [running(squad, two) for squad in squads]
    assert served[0] != served[1]


def test_a_service_goes_first_where_it_needs_little_of_the_time():
    squad = Hybrid().next_squad([service(0, per_s=60.0), client(1), client(2)], CARD, with_rho(0.3), DivideState())
    assert [member.yield_to for member in squad.members] == [0, 1, 1]
    assert "t0 first" in squad.why


def test_what_was_found_is_kept_for_a_while_if_the_same_are_awake():
    searches = []

    class Counts(Hybrid):
        def best(self, *arguments):
            searches.append(1)
            return super().best(*arguments)

    policy, three = Counts(keep=5), [service(0), client(1), client(2)]
    squads = squads_in_a_row(policy, three, 10, with_rho(0.3))
    assert len(searches) == 2
    assert len({tuple((one.groups, one.yield_to) for one in squad.members) for squad in squads}) == 1
    policy.next_squad([three[0], client(1, is_idle=True), three[2]], CARD, with_rho(0.3), squads[-1].state)
    assert len(searches) == 3


def test_a_split_nearly_as_good_stays():
    clients = [client(0, curve=FLAT), client(1, curve=FLAT)]
    first = Hybrid().next_squad(clients, CARD, with_rho(0.3), DivideState())
    nudged = [replace(clients[0], weight=1.01), clients[1]]
    second = Hybrid().next_squad(nudged, CARD, with_rho(0.3), first.state)
    assert [m.groups for m in first.members] == [m.groups for m in second.members]


def test_a_goal_about_to_be_missed_counts():
    """Q is that of the shares tried: without enough SMs the service would be utility nothing, so it gets them."""
    free = [client(0, curve=FLAT), client(1, curve=LINEAR)]
    due = replace(free[0], slo=Slo(throughput_per_s=70.0), requests=RequestStats(solo_per_s=100.0))
    plain = Hybrid().next_squad(free, CARD, with_rho(0.4), DivideState())
    goal = Hybrid().next_squad([due, free[1]], CARD, with_rho(0.4), DivideState())
    assert plain.configuration == goal.configuration == "strict"
    assert goal.members[0].groups.bit_count() > plain.members[0].groups.bit_count()


@given(
    clients=crowds(least=1, most=6),
    before=st.dictionaries(st.sampled_from([f"t{n}" for n in range(32)]), st.floats(MIN_WEIGHT, MAX_WEIGHT)),
    alpha=st.floats(0.0, 1.0),
    ease=st.floats(0.0, 1.0),
)
def test_weights_stay_bounded(clients, before, alpha, ease):
    for _ in range(20):
        before = updated(clients, before, alpha, ease)
        assert set(before) == {one.id for one in clients}
        assert all(MIN_WEIGHT <= weight <= MAX_WEIGHT for weight in before.values())


def test_weights_rise_while_a_goal_is_missed_and_come_back_after():
    late, met = service(0, attainment=0.5), client(1)
    weights = {}
    for _ in range(100):
        weights = updated([late, met], weights, 0.05, 0.01)
    raised = weights["t0"] / weights["t1"]
    assert raised > 4
    for _ in range(1000):
        weights = updated([replace(late, attainment=0.99), met], weights, 0.05, 0.01)
    assert weights["t0"] / weights["t1"] == pytest.approx(1.0, rel=0.05)


def test_a_miss_raises_by_the_rule():
    two = [service(0, attainment=0.79), service(1, attainment=0.99)]
    weights = updated(two, {"t0": 1.0, "t1": 1.0}, 0.5, 0.0)
    assert weights["t0"] / weights["t1"] == pytest.approx(2.718281828 ** (0.5 * 0.2))
    assert sum(weights.values()) == pytest.approx(2.0)


def test_more_than_can_be_solved_exactly_are_climbed_to_step_by_step():
    clients = [client(slot, curve=LINEAR if slot < 2 else FLAT) for slot in range(7)]
    squads = squads_in_a_row(Hybrid(stay=0.0, keep=1), clients, 12, with_rho(0.2))
    values = [float(squad.why.split(":")[1].split()[0]) for squad in squads if squad.configuration == "strict"]
    assert values == sorted(values)


def test_nonsense_is_refused():
    with pytest.raises(Invalid):
        Hybrid(alpha=2.0)


def test_what_was_found_is_kept_though_others_slept_in_between():
    clients = [client(0), client(1)]
    policy, state = Hybrid(), DivideState()
    found = policy.next_squad(clients, CARD, with_rho(0.6), state)
    alone = policy.next_squad([clients[0], replace(clients[1], is_idle=True)], CARD, with_rho(0.6), found.state)
    again = policy.next_squad(clients, CARD, with_rho(0.6), alone.state)
    assert "as found before" in again.why
    assert again.configuration == found.configuration != alone.configuration


def test_a_service_that_rests_and_reports_nothing_goes_first_all_the_same():
    quiet = replace(service(0), requests=None, busy_ratio=0.1)
    squad = Hybrid().next_squad([quiet, client(1)], CARD, with_rho(0.6), DivideState())
    assert [member.yield_to for member in squad.members] == [0, 1]
