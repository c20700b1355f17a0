"""What one waits for who comes while a kernel runs."""

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


def test_long_kernels_are_met_as_often_as_they_fill_the_time() -> None:
    found = summary(TRACE, steps=1)
    assert found["kernels"] == 4
    assert found["step_ms"] == 1.0
    assert found["wait_us"]["mean"] == pytest.approx(0.79 * 395 + 0.2 * 50 + 0.01 * 5)
    assert found["longest"][0] == {"name": "long", "grid": [132, 2, 1], "longest_us": 790.0, "part": 0.8}
    assert "132×2×1" in shown([{"program": "any:1", **found}])


def test_a_part_of_those_who_wait_is_what_drawing_moments_says() -> None:
    dice, lengths = random.Random(3), [20.0] * 50 + [300.0] * 4 + [900.0]
    drawn = sorted(dice.uniform(0, dice.choices(lengths, lengths)[0]) for _ in range(20_000))
    for part in (0.5, 0.9, 0.99):
        assert waited_us(lengths, part) == pytest.approx(drawn[int(part * len(drawn))], rel=0.1)


def test_a_trace_without_kernels_is_no_answer() -> None:
    with pytest.raises(Lost, match="no kernels"):
        summary({"traceEvents": []}, steps=1)
