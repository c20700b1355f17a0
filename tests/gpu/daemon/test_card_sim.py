"""Divide policies on a simulated card, under the real squad loop."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gpusquad import registry
from gpusquad.gpu.daemon.squad_loop import LoopTiming
from gpusquad.gpu.daemon.table_rates import TableRates
from gpusquad.policies.divide import _squad_builder
from tests.gpu.daemon.card_sim import CardSim, mean_jct_us
from tests.gpu.daemon.loads import BESIDE, CARD, TRAIN, batch, inference, mix

POLICIES = registry.names("divide")
each = pytest.mark.parametrize("policy", POLICIES)
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
"""Without shrinking: a simulated run takes a fraction of a second, so shrinking would take minutes."""
RIVALS = TableRates({(a, b): 0.8 for a in ("a", "b", "c") for b in ("a", "b", "c") if a != b})
"""Interference so strong that the clients are time-sliced."""


@each
@settings(max_examples=4, phases=UNSHRUNK)
@given(seed=st.integers(0, 10_000))
def test_all_work_is_done_and_the_card_is_rarely_idle_while_a_client_waits(policy, seed):
    loads, effects = mix(seed, 4)
    sim = CardSim(loads, policy, CARD, effects).run(10_000_000)
    assert not sim.squads.failure
    for load in loads:
        outcome = sim.outcomes[load.facts.id]
        assert outcome.ended_us is not None
        assert outcome.done_us == pytest.approx(load.work_us)
    longest_us = max(load.kernel_us for load in loads) / 0.05
    assert sim.longest_bubble_us <= longest_us
    assert sim.bubble_us <= 0.01 * sim.now_us


@each
def test_card_is_rarely_idle_and_efficient_when_rivals_are_time_sliced(policy):
    sim = CardSim([batch("a"), batch("b", kernel_us=250.0), batch("c")], policy, CARD, RIVALS).run(300_000)
    assert sim.busy_us >= 0.97 * 300_000
    assert sim.longest_bubble_us <= 700
    assert sum(outcome.done_us for outcome in sim.outcomes.values()) >= 0.8 * 300_000


@settings(max_examples=6, phases=UNSHRUNK)
@given(
    kernels=st.lists(st.floats(20.0, 400.0), min_size=2, max_size=4),
    needs=st.floats(0.2, 1.0),
    rho=st.floats(0.05, 0.8),
)
def test_equal_policy_gives_equal_card_time(kernels, needs, rho):
    """For any kernel length, and for any configuration that is best."""
    names = [f"t{index}" for index in range(len(kernels))]
    effects = TableRates({(a, b): rho for a in names for b in names if a != b})
    loads = [batch(name, needs, kernel_us) for name, kernel_us in zip(names, kernels, strict=True)]
    sim = CardSim(loads, "equal", CARD, effects).run(300_000)
    served = [client["attained_us"] for client in sim.squads.status(300_000)["tenants"]]
    assert max(served) - min(served) <= 0.1 * 300_000 / len(served) + 10_000


def test_equal_policy_gives_identical_clients_equal_progress():
    sim = CardSim([batch("a"), batch("b"), batch("c")], "equal", CARD, RIVALS).run(300_000)
    done = [outcome.done_us for outcome in sim.outcomes.values()]
    assert min(done) == pytest.approx(max(done), rel=0.05)


def test_priority_policy_serves_by_class():
    first = batch("a")
    loads = [replace(first, facts=replace(first.facts, priority=1)), batch("b")]
    sim = CardSim(loads, "priority", CARD, RIVALS).run(300_000)
    assert sim.outcomes["a"].done_us / sim.outcomes["b"].done_us == pytest.approx(4.0, rel=0.3)


def test_jct_policy_has_a_lower_mean_jct_than_equal():
    ratios = []
    for seed in range(10):
        loads, effects = mix(seed)
        times = [mean_jct_us(CardSim(loads, p, CARD, effects).run(10**8).outcomes, loads) for p in ("jct", "equal")]
        ratios.append(times[0] / times[1])
    assert sum(ratios) / len(ratios) < 0.95
    assert sum(ratio <= 1.0 for ratio in ratios) >= 6


def test_slo_policy_meets_a_latency_target_that_equal_misses():
    """Training keeps at least 95 % of what the service's own card time (18 %) leaves."""
    until_us, target_us = 1_000_000, 10_000
    in_time, train = {}, {}
    for policy in ("equal", "slo"):
        loads = [inference(until_us, target_us), *(batch(name, kernel_us=150.0) for name in TRAIN)]
        sim = CardSim(loads, policy, CARD, BESIDE).run(until_us)
        late = [us > target_us for us in sim.outcomes["infer"].latencies_us]
        assert len(late) > 40
        in_time[policy] = 1.0 - sum(late) / len(late)
        train[policy] = sum(sim.outcomes[name].done_us for name in TRAIN) / until_us
    alone = CardSim([batch(name, kernel_us=150.0) for name in TRAIN], "equal", CARD, BESIDE).run(100_000)
    both = sum(outcome.done_us for outcome in alone.outcomes.values()) / 100_000
    assert in_time["slo"] >= 0.98
    assert in_time["equal"] < 0.9
    assert train["slo"] >= 0.95 * (1 - 0.18) * both


@each
def test_idle_service_causes_no_bubbles(policy):
    """The others have small credits beside it, which must not run out at any weight of the service."""
    loads = [inference(400_000, 10_000, per_s=20.0), *(batch(name, kernel_us=150.0) for name in TRAIN)]
    sim = CardSim(loads, policy, CARD, BESIDE).run(400_000)
    assert sim.bubble_us <= 0.03 * 400_000


@each
def test_client_alone_runs_at_full_speed(policy):
    sim = CardSim([batch("a", work_us=50_000.0)], policy, CARD, RIVALS).run(1_000_000)
    assert sim.outcomes["a"].ended_us == pytest.approx(50_000)
    assert sim.squads.number <= 2, "nothing to decide after the first squad"


def test_policy_switch_loses_no_work_and_takes_effect_with_the_next_squad():
    loads, effects = mix(4)
    names = [name for name in POLICIES for _ in range(2)]
    switches = {20_000 * (at + 1): name for at, name in enumerate(names)}
    sim = CardSim(loads, "equal", CARD, effects)
    sim.run(40_001, switches)
    assert sim.squads.policy == names[1]
    sim.run(10_000_000, {at: name for at, name in switches.items() if at > 40_001})
    for load in loads:
        assert sim.outcomes[load.facts.id].done_us == pytest.approx(load.work_us)
    assert sim.bubble_us <= 0.01 * sim.now_us


@each
def test_every_client_is_served_within_bounded_time(policy):
    loads = [batch("a", work_us=200_000.0), batch("b", kernel_us=300.0), batch("c", kernel_us=20.0)]
    sim = CardSim(loads, policy, CARD, RIVALS).run(600_000)
    longest_us = 60 * 3000
    assert all(outcome.longest_wait_us <= longest_us for outcome in sim.outcomes.values())
    assert all(outcome.kernels > 0 for outcome in sim.outcomes.values())


def test_share_of_an_ended_client_is_free_at_once():
    sim = CardSim([batch("a", work_us=10_000.0), batch("b")], "equal", CARD, RIVALS).run(100_000)
    ended_us = sim.outcomes["a"].ended_us
    assert ended_us is not None
    assert sim.outcomes["b"].done_us >= 100_000 - ended_us + 0.3 * ended_us


def test_bubbles_are_counted_when_the_daemon_is_slow(monkeypatch):
    """Shows that the other tests can fail: with long intervals between steps, credits run out."""
    monkeypatch.setattr(_squad_builder, "QUEUED_US", -1000)
    slow = LoopTiming(shortest_look_us=20_000)
    sim = CardSim([batch("a"), batch("b")], "equal", CARD, RIVALS, slow).run(200_000)
    assert sim.bubble_us > 50_000


def test_pausing_client_causes_no_bubble_when_time_sliced():
    """The others fill its pauses without the daemon, whose interval is too long to notice them."""
    pauses = replace(batch("a"), gap_us=150.0, kernel_us=50.0)
    slow = LoopTiming(shortest_look_us=9_000)
    sim = CardSim([pauses, batch("b")], "jct", CARD, RIVALS, slow).run(200_000)
    assert sim.busy_us >= 200_000 - slow.shortest_look_us, "except before the first step"
