"""Guaranteed SM shares under any divide policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad import registry
from gpusquad.gpu.daemon.guarantees import MAX_LAG_US, GuaranteeGuard
from gpusquad.model.squad import DivideState, GpuClient, ShareableCard, Squad
from tests.policies.divide.snapshots import CARD, client, client_lists, running_slots, sm_contention

DIVIDES = registry.names("divide")


class OnlyFirst:
    """A bad policy: only the first client runs."""

    def next_squad(self, clients, card, effective, state):
        squad = registry.create("divide", "equal").next_squad(clients, card, effective, state)
        members = tuple(replace(member, groups=0, yield_to=member.slot and 1) for member in squad.members)
        return replace(squad, members=members, why="only the first")


def guarded(policy: object) -> GuaranteeGuard:
    return GuaranteeGuard(policy, registry.create("divide", "guaranteed"))  # type: ignore[arg-type]


def served(squad: Squad, clients: list[GpuClient], card: ShareableCard) -> dict[str, float]:
    """Service of each client in a squad: by its groups, and none for clients that yield."""
    first = running_slots(squad, clients)
    groups = {
        each.id: member.groups.bit_count() or card.groups
        for each in clients
        if (member := squad.of(each.slot)) is not None and each.slot in first
    }
    total = sum(groups.values()) or 1
    return {name: squad.length_us * count / total for name, count in groups.items()}


def run(policy: object, clients: list[GpuClient], squads: int) -> Mapping[str, float]:
    guard, state = guarded(policy), DivideState()
    attained = {each.id: 0.0 for each in clients}
    for _ in range(squads):
        now = [replace(each, attained_us=int(attained[each.id])) for each in clients]
        squad = guard.next_squad(now, CARD, sm_contention, state)
        state = squad.state
        for name, us in served(squad, now, CARD).items():
            attained[name] += us
    total = sum(attained.values())
    return {name: us / total for name, us in attained.items()}


def test_guarantee_holds_under_a_policy_that_ignores_it():
    shares = run(OnlyFirst(), [client(0), client(1, guaranteed_milli=300), client(2)], 400)
    assert shares["t1"] >= 0.28
    assert shares["t0"] > shares["t1"]


@pytest.mark.parametrize("name", DIVIDES)
def test_guarantee_holds_under_every_policy(name):
    clients = [client(0, priority=2, weight=5.0), client(1, guaranteed_milli=400), client(2, remaining_us=1000)]
    assert run(registry.create("divide", name), clients, 400)["t1"] >= 0.36


def test_time_sliced_clients_are_guaranteed_time_without_groups():
    """Their speed curves favour SM groups, but groups have no effect on time-sliced clients."""
    curve = ((250, 0.6), (500, 0.85), (1000, 1.0))
    clients = [
        client(slot, guaranteed_milli=milli, curve=curve, is_time_sliced=True)
        for slot, milli in enumerate((160, 160, 330, 330))
    ]
    guard, state = guarded(OnlyFirst()), DivideState()
    attained, guaranteed = dict.fromkeys((each.id for each in clients), 0.0), 0
    for _ in range(400):
        now = [replace(each, attained_us=int(attained[each.id])) for each in clients]
        squad = guard.next_squad(now, CARD, sm_contention, state)
        state = squad.state
        assert not any(member.groups for member in squad.members)
        guaranteed += "had less than guaranteed" in squad.why
        for name, us in served(squad, now, CARD).items():
            attained[name] += us
    total = sum(attained.values())
    assert guaranteed > 100
    assert [round(attained[each.id] / total, 1) for each in clients] == [0.2, 0.2, 0.3, 0.3]


@pytest.mark.parametrize("name", DIVIDES)
@given(clients=client_lists(least=1))
def test_guard_changes_nothing_without_guarantees(name, clients):
    policy = registry.create("divide", name)
    plain = policy.next_squad(clients, CARD, sm_contention, DivideState())
    assert guarded(policy).next_squad(clients, CARD, sm_contention, DivideState()) == plain


def test_idle_client_accumulates_no_lag():
    guard = guarded(OnlyFirst())
    idle = client(1, guaranteed_milli=500, is_idle=True)
    for attained in range(0, 200_000, 2000):
        squad = guard.next_squad([client(0, attained_us=attained), idle], CARD, sm_contention, DivideState())
        assert squad.why == "only the first"
    assert guard.behind_us == {}


@given(st.lists(st.integers(0, 50_000), min_size=1, max_size=50))
def test_lag_is_bounded_in_both_directions(steps):
    guard, first, second = guarded(OnlyFirst()), 0, 0
    for step in steps:
        first, second = first + step, second + step // 7
        now = [client(0, attained_us=first, guaranteed_milli=100), client(1, attained_us=second, guaranteed_milli=900)]
        guard.next_squad(now, CARD, sm_contention, DivideState())
        assert all(abs(us) <= MAX_LAG_US for us in guard.behind_us.values())


def test_squad_reason_names_the_client_below_its_guarantee():
    guard = guarded(OnlyFirst())
    reasons = [
        guard.next_squad(
            [client(0, attained_us=at), client(1, guaranteed_milli=500)], CARD, sm_contention, DivideState()
        ).why
        for at in (0, 20_000)
    ]
    assert reasons[0] == "only the first"
    assert reasons[1].startswith("t1 had less than guaranteed: by guaranteed share")
