"""The rule of each divide policy."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from gpusquad import registry
from gpusquad.gpu.daemon.starvation import MAX_UNSERVED_SQUADS, StarvationGuard
from gpusquad.gpu.daemon.table_rates import TableRates
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Slo
from gpusquad.model.squad import UNGATED_US, DivideState, RequestStats
from gpusquad.policies.divide._lags import ServiceLags
from gpusquad.policies.divide.auto import Auto, AutoChoice, fitting
from gpusquad.policies.divide.equal import Equal
from gpusquad.policies.divide.jct import Jct
from gpusquad.policies.divide.priority import Priority
from gpusquad.policies.divide.slo import SloDivide
from tests.policies.divide.snapshots import (
    CARD,
    FLAT,
    client,
    consecutive_squads,
    no_interference,
    running_slots,
    service,
    sm_contention,
    with_rho,
)


def yield_to(squad):
    return [member.yield_to for member in squad.members]


def counts(squad):
    return [member.groups.bit_count() for member in squad.members]


# Equal and priority.


def test_equal_splits_evenly_with_any_weights():
    squad = Equal().next_squad(
        [client(0, weight=5.0, curve=FLAT), client(1, curve=FLAT)], CARD, with_rho(0.4), DivideState()
    )
    assert squad.configuration == "strict"
    assert sorted(counts(squad)) == [7, 8]


def test_equal_serves_the_client_that_is_behind_first():
    pair = [client(0, attained_us=0), client(1, attained_us=0)]
    first = Equal().next_squad(pair, CARD, no_interference, DivideState())
    assert yield_to(first) == [0, 0]
    behind = [pair[0], replace(pair[1], attained_us=3 * first.length_us)]
    second = Equal().next_squad(behind, CARD, no_interference, first.state)
    assert yield_to(second) == [0, 1]


def test_idle_time_gives_no_claim_to_later_service():
    first = Equal().next_squad([client(0, is_idle=True), client(1)], CARD, no_interference, DivideState())
    woken = [client(0), client(1, attained_us=50_000)]
    second = Equal().next_squad(woken, CARD, no_interference, first.state)
    assert second.state.get(ServiceLags).lags_us["t0"] == 0


def test_equal_time_slices_when_sharing_gains_nothing():
    trio = [client(0), client(1), client(2)]
    squads = consecutive_squads(Equal(), trio, 9, with_rho(0.9))
    assert {squad.configuration for squad in squads} == {"temporal"}
    assert sorted(running_slots(squad, trio)[0] for squad in squads) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_time_sliced_client_yields_only_to_the_running_client():
    trio = [client(0), client(1), client(2)]
    squad = Equal().next_squad(trio, CARD, with_rho(0.9), DivideState())
    (now,) = running_slots(squad, trio)
    assert yield_to(squad) == [0 if slot == now else 1 << now for slot in range(3)]


def test_partition_ends_when_the_demand_of_the_neighbour_is_met():
    soon = client(0, curve=FLAT, demand_us=400)
    squad = Equal().next_squad([soon, client(1, curve=FLAT)], CARD, with_rho(0.4), DivideState())
    assert squad.configuration == "semi-spatial"
    assert [member.restricted_us for member in squad.members] == [0, 400]


def test_priority_multiplies_the_groups_per_class():
    clients = [client(0, priority=1, curve=FLAT), client(1, curve=FLAT)]
    squad = Priority().next_squad(clients, CARD, with_rho(0.5), DivideState())
    assert counts(squad) == [12, 3]
    with pytest.raises(Invalid):
        Priority(ratio=0.5)


# Jct.


def test_jct_does_not_run_two_jobs_together_for_little_gain():
    """Training jobs with their speeds over SMs on an H200; the first has half as much left. Together they did 1.03 to
    1.17 times the work of one under MPS (2026-11-16), and the delay of the first was larger than this gain."""
    googlenet = ((121, 0.2125), (303, 0.4616), (606, 0.7568), (1000, 1.0))
    vgg16 = ((121, 0.1485), (303, 0.3601), (606, 0.6638), (1000, 1.0))
    matmul = ((121, 0.1595), (303, 0.3712), (606, 0.7087), (1000, 1.0))
    transformer = ((121, 0.1769), (303, 0.3918), (606, 0.6933), (1000, 1.0))
    resnet50 = ((121, 0.26), (303, 0.5458), (606, 0.8582), (1000, 1.0))
    for short, long in ((googlenet, vgg16), (vgg16, matmul), (transformer, resnet50)):
        pair = [client(0, curve=short, remaining_us=4_000_000), client(1, curve=long, remaining_us=8_000_000)]
        assert running_slots(Jct().next_squad(pair, CARD, TableRates(), DivideState()), pair) == [0]
        even = [pair[0], replace(pair[1], remaining_us=4_000_000)]
        assert running_slots(Jct().next_squad(even, CARD, TableRates(), DivideState()), even) == [0, 1]


def test_jct_runs_the_shortest_first_when_no_clients_can_share():
    clients = [client(0, remaining_us=9_000_000), client(1, remaining_us=1_000_000), client(2, remaining_us=5_000_000)]
    squad = Jct().next_squad(clients, CARD, with_rho(0.8), DivideState())
    assert running_slots(squad, clients) == [1]
    assert squad.configuration == "temporal"


def test_client_that_all_others_yield_to_has_the_credit_of_a_single_client():
    first, other = client(0, remaining_us=1_000_000), client(1, remaining_us=9_000_000)
    alone = Jct().next_squad([first, replace(other, is_idle=True)], CARD, with_rho(0.8), DivideState())
    preferred = Jct().next_squad([first, other], CARD, with_rho(0.8), DivideState())
    together = Jct().next_squad([first, other], CARD, with_rho(0.0), DivideState())
    assert yield_to(preferred) == [0, 1]
    assert preferred.members[0].credit_us == alone.members[0].credit_us > together.members[0].credit_us
    beside_service = Jct().next_squad([first, other, service(2, is_idle=True)], CARD, with_rho(0.8), DivideState())
    assert beside_service.members[0].yield_to == 0, "its queued kernels do not yield to a service that wakes"
    assert beside_service.members[0].credit_us == together.members[0].credit_us


def test_jct_runs_clients_together_that_can_share():
    clients = [client(0, remaining_us=1_000_000, curve=FLAT), client(1, remaining_us=1_200_000, curve=FLAT)]
    assert running_slots(Jct().next_squad(clients, CARD, with_rho(0.1), DivideState()), clients) == [0, 1]


def test_jct_adds_a_long_client_only_if_it_hardly_slows_the_short_one():
    short, long = client(0, remaining_us=1_000_000), client(1, remaining_us=100_000_000)
    assert running_slots(Jct().next_squad([short, long], CARD, with_rho(0.3), DivideState()), [short, long]) == [0]
    assert running_slots(Jct().next_squad([short, long], CARD, with_rho(0.0), DivideState()), [short, long]) == [0, 1]


def test_unknown_remaining_time_counts_as_the_attained_service():
    clients = [client(0, attained_us=10_000_000), client(1, attained_us=20_000)]
    assert running_slots(Jct().next_squad(clients, CARD, with_rho(0.8), DivideState()), clients) == [1]


def test_jct_serves_a_waiting_client_after_patience_squads():
    clients = [client(0, remaining_us=10_000_000), client(1, remaining_us=1_000_000)]
    squads = consecutive_squads(Jct(patience=10), clients, 23, with_rho(0.9))
    assert [at for at, squad in enumerate(squads) if 0 in running_slots(squad, clients)] == [10, 21]
    with pytest.raises(Invalid):
        Jct(patience=0)


# Slo.


def test_others_yield_to_a_latency_slo_and_no_client_is_gated():
    squad = SloDivide().next_squad([service(0, per_s=150.0), client(1), client(2)], CARD, with_rho(0.2), DivideState())
    assert yield_to(squad)[0] == 0
    assert all(mask & 1 for mask in yield_to(squad)[1:])
    assert {member.credit_us for member in squad.members} == {UNGATED_US}
    assert squad.members[1].linger_us > 0, "a pause between two requests is not lent to others"


def test_others_yield_to_an_idle_service_before_it_wakes():
    """So the service does not wait for the next squad."""
    squad = SloDivide().next_squad([service(0, is_idle=True), client(1)], CARD, with_rho(0.2), DivideState())
    assert yield_to(squad) == [0, 1]


def test_idle_client_without_slo_yields_to_the_service():
    squad = SloDivide().next_squad([service(0), client(1), client(2, is_idle=True)], CARD, with_rho(0.2), DivideState())
    assert yield_to(squad)[2] & 1


def throughput_client(slot, target_per_s, per_s, **changes):
    return client(
        slot, slo=Slo(throughput_per_s=target_per_s), requests=RequestStats(per_s, 100.0, active_per_s=per_s), **changes
    )


@pytest.mark.parametrize(("per_s", "first"), [(49.0, 1), (60.0, 0)])
def test_throughput_slo_goes_first_while_at_risk(per_s, first):
    squad = SloDivide().next_squad([throughput_client(0, 50.0, per_s), client(1)], CARD, no_interference, DivideState())
    assert yield_to(squad) == [0, first]


def test_deadline_goes_first_while_sharing_would_miss_it():
    late = client(0, slo=Slo(deadline_us=1), remaining_us=8_000_000, deadline_in_us=10_000_000)
    assert yield_to(SloDivide().next_squad([late, client(1)], CARD, with_rho(0.3), DivideState())) == [0, 1]
    soon = replace(late, remaining_us=1_000_000)
    assert yield_to(SloDivide().next_squad([soon, client(1)], CARD, with_rho(0.3), DivideState())) == [0, 0]


@pytest.mark.parametrize(
    "slo",
    [Slo(availability_ratio=0.95), Slo(throughput_per_s=0.001), Slo(deadline_us=10_000_000)],
    ids=["availability", "no statistics", "no estimate"],
)
def test_slo_without_statistics_goes_first_only_when_missed(slo):
    unknown = client(0, slo=slo)
    assert yield_to(SloDivide().next_squad([unknown, client(1)], CARD, sm_contention, DivideState())) == [0, 0]
    missed = replace(unknown, attainment=0.5)
    assert yield_to(SloDivide().next_squad([missed, client(1)], CARD, sm_contention, DivideState())) == [0, 1]


def test_missed_slo_is_at_risk_with_any_prediction():
    missed = throughput_client(0, 50.0, 80.0, attainment=0.5)
    assert yield_to(SloDivide().next_squad([missed, client(1)], CARD, no_interference, DivideState())) == [0, 1]


def test_higher_priority_goes_first_when_not_all_slos_are_met():
    squad = SloDivide().next_squad(
        [throughput_client(0, 80.0, 50.0), throughput_client(1, 80.0, 50.0, priority=2)],
        CARD,
        sm_contention,
        DivideState(),
    )
    assert yield_to(squad) == [2, 0]


def test_no_client_yields_to_a_latency_slo_that_is_met_easily():
    def service_at(latency_us):
        plain = service(0, latency_us=10_000)
        return replace(plain, requests=replace(plain.requests, latency_us=latency_us))

    def yield_masks(latency_us):
        return yield_to(
            SloDivide().next_squad(
                [service_at(latency_us), throughput_client(1, 80.0, 50.0)], CARD, sm_contention, DivideState()
            )
        )

    assert yield_masks(9_000.0) == [0, 1]
    assert yield_masks(3_000.0) == [0, 0]


def test_latency_slo_that_is_met_easily_does_not_yield_to_higher_priority():
    relaxed = service(0, latency_us=10_000)
    relaxed = replace(relaxed, requests=replace(relaxed.requests, latency_us=3_000.0))
    assert yield_to(
        SloDivide().next_squad(
            [relaxed, throughput_client(1, 80.0, 50.0, priority=2)], CARD, sm_contention, DivideState()
        )
    ) == [
        0,
        0,
    ]


def test_starvation_guard_serves_a_client_beside_a_busy_service():
    policy = StarvationGuard(SloDivide())
    squads = consecutive_squads(policy, [service(0, per_s=400.0), client(1)], 4 * MAX_UNSERVED_SQUADS, with_rho(0.8))
    served = [at for at, squad in enumerate(squads) if 1 in running_slots(squad, [service(0), client(1)])]
    assert len(served) == 3
    assert min(b - a for a, b in pairwise(served)) >= MAX_UNSERVED_SQUADS
    assert "t1 got no service for too long" in squads[served[0]].why


def test_starvation_guard_lowers_a_raised_neighbour_for_one_squad():
    short = client(0, kernel_us=30.0, app="short", rate_beside={"long": 0.67})
    long = client(1, kernel_us=90.0, app="long", rate_beside={"short": 0.56})
    policy, state, levels = StarvationGuard(registry.create("divide", "hybrid")), DivideState(), []
    for at in range(MAX_UNSERVED_SQUADS + 2):
        squad = policy.next_squad([replace(short, attained_us=at * 2000), long], CARD, TableRates(), state)
        state, levels = squad.state, [*levels, squad.members[0].level]
    assert levels[1] > 0 in levels
    assert levels.count(0) == 1


class TestHostBoundService:
    """A service that uses the GPU for 12 % of the time: 40 requests of 3 ms per second."""

    CARD_WITH_PRIORITIES = replace(CARD, has_priorities=True)

    def squad_after(self, squads, state=None, card=CARD, **changes):
        state = state or DivideState()
        for _ in range(squads):
            clients = [self.host_bound(**changes), client(1)]
            squad = SloDivide(cooling=20).next_squad(clients, card, with_rho(0.2), state)
            state = squad.state
        return squad

    def host_bound(self, count=100, **changes):
        plain = service(0, **changes)
        return replace(plain, requests=replace(plain.requests, count=count))

    def test_others_do_not_yield_to_a_host_bound_service(self):
        assert yield_to(self.squad_after(2, busy_ratio=0.5, card=self.CARD_WITH_PRIORITIES)) == [0, 0]

    def test_others_yield_until_enough_requests_are_seen(self):
        assert yield_to(self.squad_after(2, busy_ratio=0.5, count=10, card=self.CARD_WITH_PRIORITIES)) == [0, 1]

    def test_service_does_not_yield_and_is_not_time_sliced(self):
        host_bound = self.host_bound(busy_ratio=0.5)
        for others in ([throughput_client(1, 80.0, 50.0)], [client(1), client(2)]):
            squad = SloDivide().next_squad(
                [host_bound, *others], self.CARD_WITH_PRIORITIES, sm_contention, DivideState()
            )
            assert squad.members[0].yield_to == 0
            assert not squad.members[0].groups
            assert not any(member.yield_to & 1 for member in squad.members)

    def test_service_does_not_yield_to_lower_priority(self):
        host_bound = self.host_bound(busy_ratio=0.5, priority=2)
        squad = SloDivide().next_squad(
            [host_bound, service(1, priority=1), client(2)], self.CARD_WITH_PRIORITIES, sm_contention, DivideState()
        )
        assert squad.members[0].yield_to == 0

    def test_others_yield_when_the_service_uses_the_card(self):
        assert yield_to(self.squad_after(2, busy_ratio=0.15, card=self.CARD_WITH_PRIORITIES)) == [0, 1]

    def test_others_yield_when_the_driver_has_no_priorities(self):
        assert yield_to(self.squad_after(2, busy_ratio=0.5)) == [0, 1]

    def test_others_yield_for_a_cooling_time_after_a_missed_slo(self):
        first = self.squad_after(2, busy_ratio=0.5, card=self.CARD_WITH_PRIORITIES)
        missed = self.squad_after(1, first.state, busy_ratio=0.5, attainment=0.9, card=self.CARD_WITH_PRIORITIES)
        assert yield_to(missed) == [0, 1]
        assert yield_to(self.squad_after(18, missed.state, busy_ratio=0.5, card=self.CARD_WITH_PRIORITIES)) == [0, 1]
        assert yield_to(self.squad_after(23, missed.state, busy_ratio=0.5, card=self.CARD_WITH_PRIORITIES)) == [0, 0]


# Auto.


@pytest.mark.parametrize(
    ("clients", "policy"),
    [
        ([client(0)], "equal"),
        ([client(0), client(1)], "equal"),
        ([client(0, remaining_us=5), client(1, remaining_us=7)], "jct"),
        ([client(0), client(1, priority=1)], "priority"),
        ([client(0), service(1)], "slo"),
        ([service(0), client(1, slo=Slo(throughput_per_s=5.0))], "slo"),
        ([client(0, slo=Slo(deadline_us=9)), client(1, slo=Slo(throughput_per_s=5.0))], "hybrid"),
    ],
)
def test_auto_chooses_the_policy_by_slos_and_priorities(clients, policy):
    assert fitting(clients)[0] == policy
    assert Auto().next_squad(clients, CARD, sm_contention, DivideState()).why.startswith(f"{policy}, because")


def test_auto_changes_the_policy_only_after_hold_squads():
    plain, mixed = [client(0), client(1)], [client(0), service(1)]
    policy, state, chosen = Auto(hold=3), DivideState(), []
    for clients in (plain, mixed, mixed, plain, mixed, mixed, mixed, mixed):
        squad = policy.next_squad(clients, CARD, sm_contention, state)
        state = squad.state
        chosen.append(state.get(AutoChoice).chosen)
    assert chosen == ["equal"] * 6 + ["slo"] * 2


def test_promised_is_a_deprecated_name_of_guaranteed(caplog: pytest.LogCaptureFixture, monkeypatch):
    monkeypatch.setattr(registry, "_warned", set())
    for _ in range(2):
        assert registry.create("divide", "promised:squad_us=3000") == registry.create(
            "divide", "guaranteed:squad_us=3000"
        )
    assert [record.getMessage() for record in caplog.records] == ["divide 'promised' is deprecated; use 'guaranteed'"]
    assert "promised" not in registry.names("divide")
