"""Tests of the times of requests that wake a service and of those that follow another."""

from __future__ import annotations

from dataclasses import replace
from math import exp, factorial

import pytest

from bench.card import pair_plan as plan
from bench.card.arrivals import Load, arrivals
from bench.card.pair_blocks import Timing
from bench.card.wakes import drawn_p99_s, own_times, shown, wakes

PAIR = plan.PAIRS[0]


def latencies(arrivals_s: list[float], woke_s: float, followed_s: float) -> list[float]:
    """Return the latency of each request: ``woke_s`` if it wakes the service, else queued with ``followed_s``."""
    ends_s, late_s = -1.0, []
    for at_s in arrivals_s:
        ends_s = at_s + woke_s if at_s > ends_s else ends_s + followed_s
        late_s.append(ends_s - at_s)
    return late_s


def block(condition: str, woke_ms: float, followed_ms: float, repeat: int = 0) -> dict:
    timing = Timing()
    arrival_times = [at_s for at_s in arrivals(PAIR.load, timing.counted_to_s, f"{PAIR.name} {repeat}")
              if at_s >= timing.lead_in_s]  # fmt: skip
    late_us = [round(1e6 * late_s) for late_s in latencies(arrival_times, woke_ms / 1000, followed_ms / 1000)]
    return {"bench": "pairs", "kind": "block", "sitting": "s", "pair": PAIR.name, "setup": PAIR.setup(timing.length_s),
            "condition": condition, "repeat": repeat, "late_us": late_us}  # fmt: skip


def test_service_times_are_separated_by_kind_of_request() -> None:
    arrival_times = [0.0, 1.0, 1.5, 1.6, 9.0]
    woke, followed = own_times(arrival_times, latencies(arrival_times, 0.7, 0.4))
    assert woke == pytest.approx([0.7, 0.7])
    assert followed == pytest.approx([0.4, 0.4])


def test_costs_of_waking_and_following_are_separated() -> None:
    rows = [block(plan.ALONE, 2.8, 2.8), block(plan.ISOLATED, 3.0, 2.8), block(plan.OURS, 2.8, 2.9)]
    by_condition = {entry.condition: entry for entry in wakes(rows)}
    isolated, ours = by_condition[plan.ISOLATED], by_condition[plan.OURS]
    assert (isolated.woke_mean_ms, isolated.followed_mean_ms) == pytest.approx((0.2, 0.0), abs=0.002)
    assert (ours.woke_mean_ms, ours.followed_mean_ms) == pytest.approx((0.0, 0.1), abs=0.002)
    assert by_condition[plan.ALONE].drawn_ratio == 1.0
    assert 1.0 < isolated.drawn_ratio < 1.1
    assert "| gpusquad isolated |" in shown(list(by_condition.values()))
    assert plan.ALONE + " |" not in shown(list(by_condition.values()))


def test_simulated_queue_has_the_exact_tail() -> None:
    """The distribution of waits in an M/D/1 queue is known exactly."""
    per_s, each_s = 200.0, 0.002
    wait_s = drawn_p99_s(replace(PAIR, load=Load(per_s)), ([each_s], [each_s])) - each_s
    rest = [(per_s * (wait_s - k * each_s), k) for k in range(int(wait_s / each_s) + 1)]
    probability = (1 - per_s * each_s) * sum((-x) ** k / factorial(k) * exp(x) for x, k in rest)
    assert probability == pytest.approx(0.99, abs=0.002)


def test_pairs_without_a_solo_run_are_left_out() -> None:
    assert wakes([block(plan.ISOLATED, 3.0, 2.8)]) == []
