"""What is particular to each divide."""

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
    rivals,
    running,
    service,
    squads_in_a_row,
    strangers_to_each_other,
    with_rho,
)


def yield_to(squad):
    return [member.yield_to for member in squad.members]


def counts(squad):
    return [member.groups.bit_count() for member in squad.members]


# Equal and priority.


def test_equal_splits_evenly_whatever_the_weights():
    squad = Equal().next_squad(
        [client(0, weight=5.0, curve=FLAT), client(1, curve=FLAT)], CARD, with_rho(0.4), DivideState()
    )
    assert squad.configuration == "strict"
    assert sorted(counts(squad)) == [7, 8]


def test_equal_makes_good_what_one_is_behind():
    two = [client(0, attained_us=0), client(1, attained_us=0)]
    first = Equal().next_squad(two, CARD, strangers_to_each_other, DivideState())
    assert yield_to(first) == [0, 0]
    behind = [two[0], replace(two[1], attained_us=3 * first.length_us)]
    second = Equal().next_squad(behind, CARD, strangers_to_each_other, first.state)
    assert yield_to(second) == [0, 1]


def test_who_slept_saved_nothing():
    first = Equal().next_squad([client(0, is_idle=True), client(1)], CARD, strangers_to_each_other, DivideState())
    woken = [client(0), client(1, attained_us=50_000)]
    second = Equal().next_squad(woken, CARD, strangers_to_each_other, first.state)
    assert second.state.get(ServiceLags).lags_us["t0"] == 0


def test_turns_are_taken_where_sharing_gains_nothing():
    three = [client(0), client(1), client(2)]
    squads = squads_in_a_row(Equal(), three, 9, with_rho(0.9))
    assert {squad.configuration for squad in squads} == {"temporal"}
    assert sorted(running(squad, three)[0] for squad in squads) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_out_of_turn_it_yields_to_those_whose_turn_it_is_and_no_others():
    three = [client(0), client(1), client(2)]
    squad = Equal().next_squad(three, CARD, with_rho(0.9), DivideState())
    (now,) = running(squad, three)
    assert yield_to(squad) == [0 if slot == now else 1 << now for slot in range(3)]


def test_done_early_it_lets_the_others_out_of_their_groups():
    soon = client(0, curve=FLAT, demand_us=400)
    squad = Equal().next_squad([soon, client(1, curve=FLAT)], CARD, with_rho(0.4), DivideState())
    assert squad.configuration == "semi-spatial"
    assert [member.restricted_us for member in squad.members] == [0, 400]


def test_priority_gives_each_class_its_multiple():
    clients = [client(0, priority=1, curve=FLAT), client(1, curve=FLAT)]
    squad = Priority().next_squad(clients, CARD, with_rho(0.5), DivideState())
    assert counts(squad) == [12, 3]
    with pytest.raises(Invalid):
        Priority(ratio=0.5)


# Jct.


def test_jct_does_not_run_two_together_that_do_little_more_work_than_one():
    """Training jobs, the first with half as much left, by the speeds over SMs that they have on an H200. Together they
    did 1.03 to 1.17 times the work of one under MPS there (2026-11-16), and the first was late by more."""
    googlenet = ((121, 0.2125), (303, 0.4616), (606, 0.7568), (1000, 1.0))
    vgg16 = ((121, 0.1485), (303, 0.3601), (606, 0.6638), (1000, 1.0))
    matmul = ((121, 0.1595), (303, 0.3712), (606, 0.7087), (1000, 1.0))
    transformer = ((121, 0.1769), (303, 0.3918), (606, 0.6933), (1000, 1.0))
    resnet50 = ((121, 0.26), (303, 0.5458), (606, 0.8582), (1000, 1.0))
    for short, long in ((googlenet, vgg16), (vgg16, matmul), (transformer, resnet50)):
        two = [client(0, curve=short, remaining_us=4_000_000), client(1, curve=long, remaining_us=8_000_000)]
        assert running(Jct().next_squad(two, CARD, TableRates(), DivideState()), two) == [0]
        even = [two[0], replace(two[1], remaining_us=4_000_000)]
        assert running(Jct().next_squad(even, CARD, TableRates(), DivideState()), even) == [0, 1]


def test_the_shortest_runs_first_where_nobody_can_share():
    clients = [client(0, remaining_us=9_000_000), client(1, remaining_us=1_000_000), client(2, remaining_us=5_000_000)]
    squad = Jct().next_squad(clients, CARD, with_rho(0.8), DivideState())
    assert running(squad, clients) == [1]
    assert squad.configuration == "temporal"


def test_for_whom_all_others_stand_still_may_be_as_far_ahead_of_the_card_as_alone():
    first, other = client(0, remaining_us=1_000_000), client(1, remaining_us=9_000_000)
    alone = Jct().next_squad([first, replace(other, is_idle=True)], CARD, with_rho(0.8), DivideState())
    stood_for = Jct().next_squad([first, other], CARD, with_rho(0.8), DivideState())
    together = Jct().next_squad([first, other], CARD, with_rho(0.0), DivideState())
    assert yield_to(stood_for) == [0, 1]
    assert stood_for.members[0].credit_us == alone.members[0].credit_us > together.members[0].credit_us
    beside_service = Jct().next_squad([first, other, service(2, is_idle=True)], CARD, with_rho(0.8), DivideState())
    assert beside_service.members[0].yield_to == 0, "what it queues does not stand still for a service that wakes"
    assert beside_service.members[0].credit_us == together.members[0].credit_us


def test_those_who_can_share_run_together():
    clients = [client(0, remaining_us=1_000_000, curve=FLAT), client(1, remaining_us=1_200_000, curve=FLAT)]
    assert running(Jct().next_squad(clients, CARD, with_rho(0.1), DivideState()), clients) == [0, 1]


def test_a_long_one_joins_only_where_it_costs_the_short_one_little():
    short, long = client(0, remaining_us=1_000_000), client(1, remaining_us=100_000_000)
    assert running(Jct().next_squad([short, long], CARD, with_rho(0.3), DivideState()), [short, long]) == [0]
    assert running(Jct().next_squad([short, long], CARD, with_rho(0.0), DivideState()), [short, long]) == [0, 1]


def test_what_is_not_known_counts_as_much_as_it_has_had():
    clients = [client(0, attained_us=10_000_000), client(1, attained_us=20_000)]
    assert running(Jct().next_squad(clients, CARD, with_rho(0.8), DivideState()), clients) == [1]


def test_patience_ends():
    clients = [client(0, remaining_us=10_000_000), client(1, remaining_us=1_000_000)]
    squads = squads_in_a_row(Jct(patience=10), clients, 23, with_rho(0.9))
    assert [at for at, squad in enumerate(squads) if 0 in running(squad, clients)] == [10, 21]
    with pytest.raises(Invalid):
        Jct(patience=0)


# Slo.


def test_a_latency_target_goes_first_and_nobody_stands_at_a_gate():
    squad = SloDivide().next_squad([service(0, per_s=150.0), client(1), client(2)], CARD, with_rho(0.2), DivideState())
    assert yield_to(squad)[0] == 0
    assert all(mask & 1 for mask in yield_to(squad)[1:])
    assert {member.credit_us for member in squad.members} == {UNGATED_US}
    assert squad.members[1].linger_us > 0, "a pause between two requests is not lent"


def test_it_goes_first_when_it_wakes_too():
    """Without asking anybody."""
    squad = SloDivide().next_squad([service(0, is_idle=True), client(1)], CARD, with_rho(0.2), DivideState())
    assert yield_to(squad) == [0, 1]


def test_whoever_sleeps_without_a_goal_stands_back_when_it_wakes():
    squad = SloDivide().next_squad([service(0), client(1), client(2, is_idle=True)], CARD, with_rho(0.2), DivideState())
    assert yield_to(squad)[2] & 1


def goal(slot, wanted, per_s, **changes):
    return client(
        slot, slo=Slo(throughput_per_s=wanted), requests=RequestStats(per_s, 100.0, active_per_s=per_s), **changes
    )


@pytest.mark.parametrize(("per_s", "first"), [(49.0, 1), (60.0, 0)])
def test_a_throughput_target_goes_first_while_it_is_at_risk(per_s, first):
    squad = SloDivide().next_squad([goal(0, 50.0, per_s), client(1)], CARD, strangers_to_each_other, DivideState())
    assert yield_to(squad) == [0, first]


def test_a_deadline_goes_first_while_side_by_side_would_miss_it():
    late = client(0, slo=Slo(deadline_us=1), remaining_us=8_000_000, deadline_in_us=10_000_000)
    assert yield_to(SloDivide().next_squad([late, client(1)], CARD, with_rho(0.3), DivideState())) == [0, 1]
    soon = replace(late, remaining_us=1_000_000)
    assert yield_to(SloDivide().next_squad([soon, client(1)], CARD, with_rho(0.3), DivideState())) == [0, 0]


@pytest.mark.parametrize(
    "slo",
    [Slo(availability_ratio=0.95), Slo(throughput_per_s=0.001), Slo(deadline_us=10_000_000)],
    ids=["availability", "nothing seen", "no estimate"],
)
def test_nobody_yields_for_ever_to_a_goal_of_which_nothing_is_known(slo):
    unknown = client(0, slo=slo)
    assert yield_to(SloDivide().next_squad([unknown, client(1)], CARD, rivals, DivideState())) == [0, 0]
    missed = replace(unknown, attainment=0.5)
    assert yield_to(SloDivide().next_squad([missed, client(1)], CARD, rivals, DivideState())) == [0, 1]


def test_a_missed_goal_is_at_risk_whatever_was_foretold():
    missed = goal(0, 50.0, 80.0, attainment=0.5)
    assert yield_to(SloDivide().next_squad([missed, client(1)], CARD, strangers_to_each_other, DivideState())) == [0, 1]


def test_the_important_goes_first_where_not_all_goals_are_met():
    squad = SloDivide().next_squad([goal(0, 80.0, 50.0), goal(1, 80.0, 50.0, priority=2)], CARD, rivals, DivideState())
    assert yield_to(squad) == [2, 0]


def test_a_latency_target_met_with_ease_leaves_goals_at_risk_alone():
    def served(latency_us):
        one = service(0, latency_us=10_000)
        return replace(one, requests=replace(one.requests, latency_us=latency_us))

    def stands_back(latency_us):
        return yield_to(SloDivide().next_squad([served(latency_us), goal(1, 80.0, 50.0)], CARD, rivals, DivideState()))

    assert stands_back(9_000.0) == [0, 1]
    assert stands_back(3_000.0) == [0, 0]


def test_a_latency_target_met_with_ease_stands_back_for_no_goal_however_important():
    easy = service(0, latency_us=10_000)
    easy = replace(easy, requests=replace(easy.requests, latency_us=3_000.0))
    assert yield_to(SloDivide().next_squad([easy, goal(1, 80.0, 50.0, priority=2)], CARD, rivals, DivideState())) == [
        0,
        0,
    ]


def test_a_service_that_never_rests_leaves_something():
    policy = StarvationGuard(SloDivide())
    squads = squads_in_a_row(policy, [service(0, per_s=400.0), client(1)], 4 * MAX_UNSERVED_SQUADS, with_rho(0.8))
    served = [at for at, squad in enumerate(squads) if 1 in running(squad, [service(0), client(1)])]
    assert len(served) == 3
    assert min(b - a for a, b in pairwise(served)) >= MAX_UNSERVED_SQUADS
    assert "t1 got no service for too long" in squads[served[0]].why


def test_whoever_had_nothing_for_too_long_beside_a_raised_one_is_not_passed_for_a_squad():
    short = client(0, kernel_us=30.0, app="short", rate_beside={"long": 0.67})
    long = client(1, kernel_us=90.0, app="long", rate_beside={"short": 0.56})
    policy, state, levels = StarvationGuard(registry.create("divide", "hybrid")), DivideState(), []
    for at in range(MAX_UNSERVED_SQUADS + 2):
        squad = policy.next_squad([replace(short, attained_us=at * 2000), long], CARD, TableRates(), state)
        state, levels = squad.state, [*levels, squad.members[0].level]
    assert levels[1] > 0 in levels
    assert levels.count(0) == 1


class TestBoundByItsHost:
    """Its GPU time is 0.12 of the time: 40 requests of 3 ms."""

    RANKED = replace(CARD, has_priorities=True)

    def after(self, squads, state=None, card=CARD, **changes):
        state = state or DivideState()
        for _ in range(squads):
            clients = [self.bound(**changes), client(1)]
            squad = SloDivide(cooling=20).next_squad(clients, card, with_rho(0.2), state)
            state = squad.state
        return squad

    def bound(self, count=100, **changes):
        one = service(0, **changes)
        return replace(one, requests=replace(one.requests, count=count))

    def test_others_run_beside_it(self):
        assert yield_to(self.after(2, busy_ratio=0.5, card=self.RANKED)) == [0, 0]

    def test_that_is_not_believed_of_the_first_requests(self):
        assert yield_to(self.after(2, busy_ratio=0.5, count=10, card=self.RANKED)) == [0, 1]

    def test_it_stands_back_for_no_other_goal_and_takes_no_turns(self):
        bound = self.bound(busy_ratio=0.5)
        for others in ([goal(1, 80.0, 50.0)], [client(1), client(2)]):
            squad = SloDivide().next_squad([bound, *others], self.RANKED, rivals, DivideState())
            assert squad.members[0].yield_to == 0
            assert not squad.members[0].groups
            assert not any(member.yield_to & 1 for member in squad.members)

    def test_it_stands_back_for_nobody_of_a_lower_class(self):
        bound = self.bound(busy_ratio=0.5, priority=2)
        squad = SloDivide().next_squad([bound, service(1, priority=1), client(2)], self.RANKED, rivals, DivideState())
        assert squad.members[0].yield_to == 0

    def test_but_not_beside_one_that_uses_the_card(self):
        assert yield_to(self.after(2, busy_ratio=0.15, card=self.RANKED)) == [0, 1]

    def test_nor_where_the_driver_knows_no_priorities(self):
        assert yield_to(self.after(2, busy_ratio=0.5)) == [0, 1]

    def test_where_that_does_not_do_it_is_not_tried_again_for_long(self):
        first = self.after(2, busy_ratio=0.5, card=self.RANKED)
        missed = self.after(1, first.state, busy_ratio=0.5, attainment=0.9, card=self.RANKED)
        assert yield_to(missed) == [0, 1]
        assert yield_to(self.after(18, missed.state, busy_ratio=0.5, card=self.RANKED)) == [0, 1]
        assert yield_to(self.after(23, missed.state, busy_ratio=0.5, card=self.RANKED)) == [0, 0]


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
def test_auto_chooses_by_goals(clients, policy):
    assert fitting(clients)[0] == policy
    assert Auto().next_squad(clients, CARD, rivals, DivideState()).why.startswith(f"{policy}, because")


def test_auto_changes_its_mind_slowly():
    plain, mixed = [client(0), client(1)], [client(0), service(1)]
    policy, state, chosen = Auto(hold=3), DivideState(), []
    for clients in (plain, mixed, mixed, plain, mixed, mixed, mixed, mixed):
        squad = policy.next_squad(clients, CARD, rivals, state)
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
