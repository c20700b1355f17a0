"""What is particular to each divide."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Slo
from gpusquad.model.squad import UNGATED_US, Requests, State
from gpusquad.policies.divide.auto import Auto, fitting
from gpusquad.policies.divide.equal import Equal
from gpusquad.policies.divide.jct import Jct
from gpusquad.policies.divide.priority import Priority
from gpusquad.policies.divide.slo import SloFirst
from tests.policies.divide.snapshots import (
    CARD,
    FLAT,
    rivals,
    service,
    squads_in_a_row,
    strangers_to_each_other,
    tenant,
    with_rho,
)


def running(squad):
    return [member.slot for member in squad.members if member.credit_us]


def counts(squad):
    return [member.groups.bit_count() for member in squad.members]


# Equal and priority.


def test_equal_splits_evenly_whatever_the_weights():
    squad = Equal().next_squad([tenant(0, weight=5.0, curve=FLAT), tenant(1, curve=FLAT)], CARD, with_rho(0.4), State())
    assert squad.configuration == "strict"
    assert sorted(counts(squad)) == [7, 8]


def test_equal_makes_good_what_one_is_behind():
    two = [tenant(0, attained_us=0), tenant(1, attained_us=0)]
    first = Equal().next_squad(two, CARD, strangers_to_each_other, State())
    assert [m.credit_us for m in first.members] == [first.members[0].credit_us] * 2
    behind = [two[0], replace(two[1], attained_us=2 * first.length_us)]
    second = Equal().next_squad(behind, CARD, strangers_to_each_other, first.state)
    assert second.members[0].credit_us > second.members[1].credit_us


def test_who_slept_saved_nothing():
    first = Equal().next_squad([tenant(0, is_idle=True), tenant(1)], CARD, strangers_to_each_other, State())
    woken = [tenant(0), tenant(1, attained_us=50_000)]
    second = Equal().next_squad(woken, CARD, strangers_to_each_other, first.state)
    assert second.state.lags_us["t0"] == 0


def test_turns_are_taken_where_sharing_gains_nothing():
    squads = squads_in_a_row(Equal(), [tenant(0), tenant(1), tenant(2)], 9, with_rho(0.9))
    assert {squad.configuration for squad in squads} == {"temporal"}
    assert sorted(running(squad)[0] for squad in squads) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_held_at_the_gate_it_waits_for_those_who_run_and_no_others():
    """Two that are held would else keep each other from borrowing."""
    squad = Equal().next_squad([tenant(0), tenant(1), tenant(2)], CARD, with_rho(0.9), State())
    (now,) = running(squad)
    for member in squad.members:
        if member.slot != now:
            assert member.mates == 1 << now
            assert member.borrows


def test_done_early_it_lets_the_others_out_of_their_groups():
    soon = tenant(0, curve=FLAT, wants_us=400)
    squad = Equal().next_squad([soon, tenant(1, curve=FLAT)], CARD, with_rho(0.4), State())
    assert squad.configuration == "semi-spatial"
    assert [member.restricted_us for member in squad.members] == [0, 400]


def test_priority_gives_each_class_its_multiple():
    tenants = [tenant(0, priority=1, curve=FLAT), tenant(1, curve=FLAT)]
    squad = Priority().next_squad(tenants, CARD, with_rho(0.5), State())
    assert counts(squad) == [12, 3]
    with pytest.raises(Invalid):
        Priority(ratio=0.5)


# Jct.


def test_the_shortest_runs_first_where_nobody_can_share():
    tenants = [tenant(0, remaining_us=9_000_000), tenant(1, remaining_us=1_000_000), tenant(2, remaining_us=5_000_000)]
    squad = Jct().next_squad(tenants, CARD, with_rho(0.8), State())
    assert running(squad) == [1]
    assert squad.configuration == "temporal"


def test_those_who_can_share_run_together():
    tenants = [tenant(0, remaining_us=1_000_000, curve=FLAT), tenant(1, remaining_us=1_200_000, curve=FLAT)]
    assert running(Jct().next_squad(tenants, CARD, with_rho(0.1), State())) == [0, 1]


def test_a_long_one_joins_only_where_it_costs_the_short_one_little():
    short, long = tenant(0, remaining_us=1_000_000), tenant(1, remaining_us=100_000_000)
    assert running(Jct().next_squad([short, long], CARD, with_rho(0.3), State())) == [0]
    assert running(Jct().next_squad([short, long], CARD, with_rho(0.0), State())) == [0, 1]


def test_what_is_not_known_counts_as_much_as_it_has_had():
    tenants = [tenant(0, attained_us=10_000_000), tenant(1, attained_us=20_000)]
    assert running(Jct().next_squad(tenants, CARD, with_rho(0.8), State())) == [1]


def test_patience_ends():
    tenants = [tenant(0, remaining_us=10_000_000), tenant(1, remaining_us=1_000_000)]
    squads = squads_in_a_row(Jct(patience=10), tenants, 23, with_rho(0.9))
    assert [at for at, squad in enumerate(squads) if 0 in running(squad)] == [10, 21]
    with pytest.raises(Invalid):
        Jct(patience=0)


# Slo.


def test_a_latency_target_runs_at_once_and_the_rest_keeps_clear():
    squad = SloFirst().next_squad([service(0, per_s=150.0), tenant(1)], CARD, with_rho(0.2), State())
    urgent, rest = squad.members
    assert (urgent.credit_us, urgent.groups) == (UNGATED_US, 0)
    assert rest.credit_us <= 2000, "no more than a tenth of the target is queued"
    assert rest.groups.bit_count() < CARD.groups or rest.credit_us == 0


def test_what_an_idle_service_holds_is_lent():
    squad = SloFirst().next_squad([service(0, is_idle=True), tenant(1)], CARD, with_rho(0.2), State())
    urgent, rest = squad.members
    assert urgent.credit_us == UNGATED_US, "it may begin at once"
    assert rest.groups == 0
    assert 0 < rest.credit_us <= 2000


@pytest.mark.parametrize(
    ("kernel_us", "target_us", "borrows", "loan_us"),
    [(50.0, 30_000, True, 2000), (50.0, 10_000, True, 1000), (1200.0, 10_000, False, 0), (50.0, 1000, True, 250)],
)
def test_it_borrows_by_itself_what_can_be_taken_back_in_time(kernel_us, target_us, borrows, loan_us):
    """A tenth of the target; 2 ms at most."""
    tenants = [service(0, latency_us=target_us, is_idle=True), tenant(1, kernel_us=kernel_us)]
    squad = SloFirst().next_squad(tenants, CARD, with_rho(0.2), State())
    assert (squad.members[1].borrows, squad.members[1].loan_us) == (borrows, loan_us)


def test_client_priorities_allow_larger_loans():
    tenants = [service(0, latency_us=10_000, is_idle=True), tenant(1)]
    squad = SloFirst().next_squad(tenants, replace(CARD, has_priorities=True), with_rho(0.2), State())
    assert (squad.members[1].borrows, squad.members[1].loan_us) == (True, 2000)


def test_a_throughput_target_holds_what_it_needs():
    goal = tenant(0, slo=Slo(throughput_per_s=50.0), requests=Requests(solo_per_s=100.0))
    squad = SloFirst(margin=1.0).next_squad([goal, tenant(1)], CARD, strangers_to_each_other, State())
    held, rest = counts(squad)
    assert held + rest == CARD.groups
    assert CARD.share_milli(held - 1) < 500 <= CARD.share_milli(held)


def test_a_deadline_holds_what_it_needs():
    goal = tenant(0, slo=Slo(deadline_us=1), remaining_us=3_000_000, deadline_in_us=10_000_000)
    held, _ = counts(SloFirst(margin=1.0).next_squad([goal, tenant(1)], CARD, strangers_to_each_other, State()))
    assert CARD.share_milli(held - 1) < 300 <= CARD.share_milli(held)


def test_risk_raises_what_is_held():
    goal = tenant(0, slo=Slo(throughput_per_s=30.0), requests=Requests(solo_per_s=100.0))
    met = squads_in_a_row(SloFirst(), [goal, tenant(1)], 50, strangers_to_each_other)[-1]
    missed = squads_in_a_row(SloFirst(), [replace(goal, attainment=0.5), tenant(1)], 50, strangers_to_each_other)[-1]
    assert counts(missed)[0] > counts(met)[0]


def test_the_important_is_served_where_not_all_goals_fit():
    def goal(slot, priority):
        return tenant(slot, priority=priority, slo=Slo(throughput_per_s=80.0), requests=Requests(solo_per_s=100.0))

    squad = SloFirst(margin=1.0).next_squad([goal(0, 0), goal(1, 2)], CARD, strangers_to_each_other, State())
    less, more = counts(squad)
    assert CARD.share_milli(more) >= 800
    assert less == CARD.groups - more


def test_more_without_a_goal_than_groups_share_them():
    goal = tenant(0, slo=Slo(throughput_per_s=85.0), requests=Requests(solo_per_s=100.0))
    squad = SloFirst(margin=1.0).next_squad([goal, tenant(1), tenant(2)], CARD, strangers_to_each_other, State())
    assert squad.members[1].groups == squad.members[2].groups != 0
    assert not squad.members[0].groups & squad.members[1].groups


def test_a_service_that_never_rests_leaves_something():
    busy = service(0, per_s=400.0)
    squads = squads_in_a_row(SloFirst(patience=5), [busy, tenant(1)], 30, with_rho(0.8))
    waits = [squad.members[1].credit_us == 0 for squad in squads]
    assert not all(waits[at : at + 6] == [True] * 6 for at in range(24))
    assert sum(not wait for wait in waits) >= 4


# Auto.


@pytest.mark.parametrize(
    ("tenants", "policy"),
    [
        ([tenant(0)], "equal"),
        ([tenant(0), tenant(1)], "equal"),
        ([tenant(0, remaining_us=5), tenant(1, remaining_us=7)], "jct"),
        ([tenant(0), tenant(1, priority=1)], "priority"),
        ([tenant(0), service(1)], "slo"),
        ([service(0), tenant(1, slo=Slo(throughput_per_s=5.0))], "hybrid"),
    ],
)
def test_auto_chooses_by_goals(tenants, policy):
    assert fitting(tenants)[0] == policy
    assert Auto().next_squad(tenants, CARD, rivals, State()).why.startswith(f"{policy}, because")


def test_auto_changes_its_mind_slowly():
    plain, mixed = [tenant(0), tenant(1)], [tenant(0), service(1)]
    policy, state, chosen = Auto(hold=3), State(), []
    for tenants in (plain, mixed, mixed, plain, mixed, mixed, mixed, mixed):
        squad = policy.next_squad(tenants, CARD, rivals, state)
        state = squad.state
        chosen.append(state.chosen)
    assert chosen == ["equal"] * 6 + ["slo"] * 2
