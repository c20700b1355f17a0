"""The divide policy ``hybrid``: best split, and weights that follow the SLOs within bounds."""

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
    client_lists,
    consecutive_squads,
    running_slots,
    service,
    with_rho,
)

SMALL = ShareableCard(groups=8, sms_per_group=8)


def all_splits(count, groups):
    return [split for split in product(range(1, groups + 1), repeat=count) if sum(split) == groups]


@settings(max_examples=40)
@given(clients=client_lists(least=2, most=4), rho=st.floats(0.0, 0.9))
def test_exact_split_equals_the_best_of_all_splits(clients, rho):
    policy, effective = Hybrid(), with_rho(rho)
    weights = updated(clients, {}, 0.05, 0.0)
    shares = [SMALL.share_milli(count) for count in range(SMALL.groups + 1)]

    def utility(gpu_client, share, others):
        return policy.utility(gpu_client, effective(gpu_client, share, others), weights[gpu_client.id])

    best = max(total(clients, split, shares, utility) for split in all_splits(len(clients), SMALL.groups))
    found, counts = best_counts(clients, SMALL.groups, shares, utility)
    assert found == pytest.approx(best, abs=1e-9)
    assert total(clients, counts, shares, utility) == pytest.approx(best, abs=1e-9)
    climbed_total, counts = hill_climbed_counts(clients, SMALL.groups, shares, utility)
    assert climbed_total <= best + 1e-9
    assert sum(counts) == SMALL.groups


def test_client_that_gains_by_sms_gets_more_groups():
    clients = [client(0, curve=LINEAR), client(1, curve=FLAT)]
    squad = Hybrid().next_squad(clients, CARD, with_rho(0.4), DivideState())
    assert squad.configuration == "strict"
    own, other = (member.groups.bit_count() for member in squad.members)
    assert own > other, "the client that gains by SMs gets more of them"
    assert own + other == CARD.groups


def test_clients_are_time_sliced_when_sharing_slows_both_too_much():
    clients = [client(0), client(1)]
    squads = consecutive_squads(Hybrid(), clients, 4, lambda gpu_client, share, others: 0.1 if others else 1.0)
    assert {squad.configuration for squad in squads} == {"temporal"}
    served = [running_slots(squad, clients) for squad in squads]
    assert served[0] != served[1]


def test_service_that_needs_little_time_goes_first():
    squad = Hybrid().next_squad([service(0, per_s=60.0), client(1), client(2)], CARD, with_rho(0.3), DivideState())
    assert [member.yield_to for member in squad.members] == [0, 1, 1]
    assert "t0 first" in squad.why


def test_configuration_is_kept_while_the_active_clients_are_the_same():
    searches = []

    class CountingHybrid(Hybrid):
        def best(self, *arguments):
            searches.append(1)
            return super().best(*arguments)

    policy, three = CountingHybrid(keep=5), [service(0), client(1), client(2)]
    squads = consecutive_squads(policy, three, 10, with_rho(0.3))
    assert len(searches) == 2
    assert len({tuple((member.groups, member.yield_to) for member in squad.members) for squad in squads}) == 1
    policy.next_squad([three[0], client(1, is_idle=True), three[2]], CARD, with_rho(0.3), squads[-1].state)
    assert len(searches) == 3


def test_split_is_kept_when_it_is_nearly_as_good():
    clients = [client(0, curve=FLAT), client(1, curve=FLAT)]
    first = Hybrid().next_squad(clients, CARD, with_rho(0.3), DivideState())
    changed = [replace(clients[0], weight=1.01), clients[1]]
    second = Hybrid().next_squad(changed, CARD, with_rho(0.3), first.state)
    assert [m.groups for m in first.members] == [m.groups for m in second.members]


def test_client_with_an_slo_at_risk_gets_more_groups():
    """Q is predicted for each split: with too few SMs the utility of the service would be zero, so it gets enough."""
    without_slo = [client(0, curve=FLAT), client(1, curve=LINEAR)]
    with_slo = replace(without_slo[0], slo=Slo(throughput_per_s=70.0), requests=RequestStats(solo_per_s=100.0))
    squad_without_slo = Hybrid().next_squad(without_slo, CARD, with_rho(0.4), DivideState())
    squad_with_slo = Hybrid().next_squad([with_slo, without_slo[1]], CARD, with_rho(0.4), DivideState())
    assert squad_without_slo.configuration == squad_with_slo.configuration == "strict"
    assert squad_with_slo.members[0].groups.bit_count() > squad_without_slo.members[0].groups.bit_count()


@given(
    clients=client_lists(least=1, most=6),
    before=st.dictionaries(st.sampled_from([f"t{n}" for n in range(32)]), st.floats(MIN_WEIGHT, MAX_WEIGHT)),
    alpha=st.floats(0.0, 1.0),
    ease=st.floats(0.0, 1.0),
)
def test_weights_stay_bounded(clients, before, alpha, ease):
    for _ in range(20):
        before = updated(clients, before, alpha, ease)
        assert set(before) == {gpu_client.id for gpu_client in clients}
        assert all(MIN_WEIGHT <= weight <= MAX_WEIGHT for weight in before.values())


def test_weights_rise_while_an_slo_is_missed_and_return_afterwards():
    missing, met = service(0, attainment=0.5), client(1)
    weights = {}
    for _ in range(100):
        weights = updated([missing, met], weights, 0.05, 0.01)
    raised = weights["t0"] / weights["t1"]
    assert raised > 4
    for _ in range(1000):
        weights = updated([replace(missing, attainment=0.99), met], weights, 0.05, 0.01)
    assert weights["t0"] / weights["t1"] == pytest.approx(1.0, rel=0.05)


def test_weight_update_follows_the_formula():
    clients = [service(0, attainment=0.79), service(1, attainment=0.99)]
    weights = updated(clients, {"t0": 1.0, "t1": 1.0}, 0.5, 0.0)
    assert weights["t0"] / weights["t1"] == pytest.approx(2.718281828 ** (0.5 * 0.2))
    assert sum(weights.values()) == pytest.approx(2.0)


def test_hill_climbing_improves_from_squad_to_squad_with_many_clients():
    clients = [client(slot, curve=LINEAR if slot < 2 else FLAT) for slot in range(7)]
    squads = consecutive_squads(Hybrid(stay=0.0, keep=1), clients, 12, with_rho(0.2))
    values = [float(squad.why.split(":")[1].split()[0]) for squad in squads if squad.configuration == "strict"]
    assert values == sorted(values)


def test_invalid_alpha_is_refused():
    with pytest.raises(Invalid):
        Hybrid(alpha=2.0)


def test_configuration_is_kept_when_a_client_was_idle_in_between():
    clients = [client(0), client(1)]
    policy, state = Hybrid(), DivideState()
    found = policy.next_squad(clients, CARD, with_rho(0.6), state)
    alone = policy.next_squad([clients[0], replace(clients[1], is_idle=True)], CARD, with_rho(0.6), found.state)
    again = policy.next_squad(clients, CARD, with_rho(0.6), alone.state)
    assert "as found before" in again.why
    assert again.configuration == found.configuration != alone.configuration


def test_service_without_request_statistics_goes_first_when_it_is_mostly_idle():
    silent_service = replace(service(0), requests=None, busy_ratio=0.1)
    squad = Hybrid().next_squad([silent_service, client(1)], CARD, with_rho(0.6), DivideState())
    assert [member.yield_to for member in squad.members] == [0, 1]


def test_unknown_attainment_does_not_raise_a_weight():
    silent, other = service(0), client(1)
    assert silent.attainment is None
    assert updated([silent, other], {}, 0.5, 0.0) == {silent.id: 1.0, other.id: 1.0}
