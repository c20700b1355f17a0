"""Tests of the wait of a request that arrives while a kernel runs."""

from __future__ import annotations

import random

import pytest

from bench.card.kernels import shown, summary, waited_us
from bench.card.place import Lost

TRACE = {
    "traceEvents": [
        {"cat": "kernel", "name": "short", "dur": 100.0, "args": {"grid": [8, 1, 1]}},
        {"cat": "kernel", "name": "short", "dur": 100.0, "args": {"grid": [8, 1, 1]}},
        {"cat": "kernel", "name": "long", "dur": 790.0, "args": {"grid": [132, 2, 1]}},
        {"cat": "kernel", "name": "long", "dur": 10.0, "args": {"grid": [132, 2, 1]}},
        {"cat": "gpu_memcpy", "name": "copy", "dur": 5000.0},
        {"name": "no category"},
    ]
}


def test_kernels_are_weighted_by_their_share_of_the_time() -> None:
    found = summary(TRACE, steps=1)
    assert found["kernels"] == 4
    assert found["step_ms"] == 1.0
    assert found["wait_us"]["mean"] == pytest.approx(0.79 * 395 + 0.2 * 50 + 0.01 * 5)
    assert found["longest"][0] == {"name": "long", "grid": [132, 2, 1], "longest_us": 790.0, "part": 0.8}
    assert "132×2×1" in shown([{"program": "any:1", **found}])


def test_wait_quantile_matches_random_arrivals() -> None:
    rng, lengths = random.Random(3), [20.0] * 50 + [300.0] * 4 + [900.0]
    drawn = sorted(rng.uniform(0, rng.choices(lengths, lengths)[0]) for _ in range(20_000))
    for fraction in (0.5, 0.9, 0.99):
        assert waited_us(lengths, fraction) == pytest.approx(drawn[int(fraction * len(drawn))], rel=0.1)


def test_trace_without_kernels_is_refused() -> None:
    with pytest.raises(Lost, match="no kernels"):
        summary({"traceEvents": []}, steps=1)
