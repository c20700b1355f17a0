"""Promised parts of the SMs, whatever the policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad import registry
from gpusquad.gpu.daemon.guarantees import MAX_LAG_US, GuaranteeGuard
from gpusquad.model.squad import DivideState, GpuClient, ShareableCard, Squad
from tests.policies.divide.snapshots import CARD, client, crowds, rivals, running

DIVIDES = registry.names("divide")


class OnlyFirst:
    """The policy nobody should have: the first tenant alone."""

    def next_squad(self, clients, card, effective, state):
        squad = registry.create("divide", "equal").next_squad(clients, card, effective, state)
        members = tuple(replace(one, groups=0, yield_to=one.slot and 1) for one in squad.members)
        return replace(squad, members=members, why="only the first")


def keeping(policy: object) -> GuaranteeGuard:
    return GuaranteeGuard(policy, registry.create("divide", "guaranteed"))  # type: ignore[arg-type]


def served(squad: Squad, clients: list[GpuClient], card: ShareableCard) -> dict[str, float]:
    """What a squad comes to: to each by its groups, and nothing to those who stand back."""
    first = running(squad, clients)
    asks = {
        one.id: member.groups.bit_count() or card.groups
        for one in clients
        if (member := squad.of(one.slot)) is not None and one.slot in first
    }
    total = sum(asks.values()) or 1
    return {name: squad.length_us * ask / total for name, ask in asks.items()}


def run(policy: object, clients: list[GpuClient], squads: int) -> Mapping[str, float]:
    keeps, state = keeping(policy), DivideState()
    attained = {one.id: 0.0 for one in clients}
    for _ in range(squads):
        now = [replace(one, attained_us=int(attained[one.id])) for one in clients]
        squad = keeps.next_squad(now, CARD, rivals, state)
        state = squad.state
        for name, us in served(squad, now, CARD).items():
            attained[name] += us
    total = sum(attained.values())
    return {name: us / total for name, us in attained.items()}


def test_a_promise_holds_under_a_policy_that_forgets_it():
    found = run(OnlyFirst(), [client(0), client(1, guaranteed_milli=300), client(2)], 400)
    assert found["t1"] >= 0.28
    assert found["t0"] > found["t1"]


@pytest.mark.parametrize("name", DIVIDES)
def test_a_promise_holds_under_every_policy(name):
    clients = [client(0, priority=2, weight=5.0), client(1, guaranteed_milli=400), client(2, remaining_us=1000)]
    assert run(registry.create("divide", name), clients, 400)["t1"] >= 0.36


def test_those_who_take_turns_are_promised_time_and_no_groups():
    """Their speeds over parts of the SMs are known, and would do more work in groups: which mean nothing to them."""
    curve = ((250, 0.6), (500, 0.85), (1000, 1.0))
    clients = [
        client(slot, guaranteed_milli=milli, curve=curve, is_time_sliced=True)
        for slot, milli in enumerate((160, 160, 330, 330))
    ]
    keeps, state = keeping(OnlyFirst()), DivideState()
    attained, by_turns = dict.fromkeys((one.id for one in clients), 0.0), 0
    for _ in range(400):
        now = [replace(one, attained_us=int(attained[one.id])) for one in clients]
        squad = keeps.next_squad(now, CARD, rivals, state)
        state = squad.state
        assert not any(member.groups for member in squad.members)
        by_turns += "had less than guaranteed" in squad.why
        for name, us in served(squad, now, CARD).items():
            attained[name] += us
    total = sum(attained.values())
    assert by_turns > 100
    assert [round(attained[one.id] / total, 1) for one in clients] == [0.2, 0.2, 0.3, 0.3]


@pytest.mark.parametrize("name", DIVIDES)
@given(clients=crowds(least=1))
def test_without_promises_nothing_changes(name, clients):
    policy = registry.create("divide", name)
    plain = policy.next_squad(clients, CARD, rivals, DivideState())
    assert keeping(policy).next_squad(clients, CARD, rivals, DivideState()) == plain


def test_whoever_sleeps_is_owed_nothing():
    keeps = keeping(OnlyFirst())
    asleep = client(1, guaranteed_milli=500, is_idle=True)
    for attained in range(0, 200_000, 2000):
        squad = keeps.next_squad([client(0, attained_us=attained), asleep], CARD, rivals, DivideState())
        assert squad.why == "only the first"
    assert keeps.behind_us == {}


@given(st.lists(st.integers(0, 50_000), min_size=1, max_size=50))
def test_debts_are_bounded_both_ways(steps):
    keeps, first, second = keeping(OnlyFirst()), 0, 0
    for step in steps:
        first, second = first + step, second + step // 7
        now = [client(0, attained_us=first, guaranteed_milli=100), client(1, attained_us=second, guaranteed_milli=900)]
        keeps.next_squad(now, CARD, rivals, DivideState())
        assert all(abs(us) <= MAX_LAG_US for us in keeps.behind_us.values())


def test_it_says_who_was_short():
    keeps = keeping(OnlyFirst())
    told = [
        keeps.next_squad([client(0, attained_us=at), client(1, guaranteed_milli=500)], CARD, rivals, DivideState()).why
        for at in (0, 20_000)
    ]
    assert told[0] == "only the first"
    assert told[1].startswith("t1 had less than guaranteed: by guaranteed share")
