"""Requests that wake a service, and those that follow another."""

from __future__ import annotations

from dataclasses import replace
from math import exp, factorial

import pytest

from bench.card import pair_plan as plan
from bench.card.arrivals import Load, arrivals
from bench.card.pair_blocks import Timing
from bench.card.wakes import drawn_p99_s, own_times, shown, wakes

PAIR = plan.PAIRS[0]


def served(coming_s: list[float], woke_s: float, followed_s: float) -> list[float]:
    """How late each is where those that wake the service take so long, and those that follow so long."""
    ends_s, late_s = -1.0, []
    for at_s in coming_s:
        ends_s = at_s + woke_s if at_s > ends_s else ends_s + followed_s
        late_s.append(ends_s - at_s)
    return late_s


def block(condition: str, woke_ms: float, followed_ms: float, repeat: int = 0) -> dict:
    timing = Timing()
    coming = [at_s for at_s in arrivals(PAIR.load, timing.counted_to_s, f"{PAIR.name} {repeat}")
              if at_s >= timing.lead_in_s]  # fmt: skip
    late_us = [round(1e6 * late_s) for late_s in served(coming, woke_ms / 1000, followed_ms / 1000)]
    return {"bench": "pairs", "kind": "block", "sitting": "s", "pair": PAIR.name, "setup": PAIR.setup(timing.length_s),
            "condition": condition, "repeat": repeat, "late_us": late_us}  # fmt: skip


def test_a_requests_own_time_is_told_by_its_kind() -> None:
    coming = [0.0, 1.0, 1.5, 1.6, 9.0]
    woke, followed = own_times(coming, served(coming, 0.7, 0.4))
    assert woke == pytest.approx([0.7, 0.7])
    assert followed == pytest.approx([0.4, 0.4])


def test_what_waking_and_following_cost_is_told_apart() -> None:
    rows = [block(plan.ALONE, 2.8, 2.8), block(plan.ISOLATED, 3.0, 2.8), block(plan.OURS, 2.8, 2.9)]
    by_condition = {one.condition: one for one in wakes(rows)}
    isolated, ours = by_condition[plan.ISOLATED], by_condition[plan.OURS]
    assert (isolated.woke_mean_ms, isolated.followed_mean_ms) == pytest.approx((0.2, 0.0), abs=0.002)
    assert (ours.woke_mean_ms, ours.followed_mean_ms) == pytest.approx((0.0, 0.1), abs=0.002)
    assert by_condition[plan.ALONE].drawn_ratio == 1.0
    assert 1.0 < isolated.drawn_ratio < 1.1
    assert "| gpusquad isolated |" in shown(list(by_condition.values()))
    assert plan.ALONE + " |" not in shown(list(by_condition.values()))


def test_what_was_drawn_has_the_tail_of_such_a_queue() -> None:
    """Requests that come at random and take the same time: how many wait no longer than so long is known exactly."""
    per_s, each_s = 200.0, 0.002
    wait_s = drawn_p99_s(replace(PAIR, load=Load(per_s)), ([each_s], [each_s])) - each_s
    rest = [(per_s * (wait_s - k * each_s), k) for k in range(int(wait_s / each_s) + 1)]
    no_longer = (1 - per_s * each_s) * sum((-x) ** k / factorial(k) * exp(x) for x, k in rest)
    assert no_longer == pytest.approx(0.99, abs=0.002)


def test_nothing_is_told_of_pairs_without_the_service_alone() -> None:
    assert wakes([block(plan.ISOLATED, 3.0, 2.8)]) == []
