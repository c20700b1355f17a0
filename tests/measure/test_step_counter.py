"""Tests for counting steps and fractions of steps in a window."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.measure.step_counter import HostMarks, StepWindow, counted, run

WINDOW = StepWindow(start_s=100.0, lead_in_s=0.5, length_s=2.0, tail_s=0.25)


@given(st.floats(0.001, 0.2), st.floats(0.0, 1.0))
def test_even_steps_are_counted_exactly(step_s: float, offset: float) -> None:
    first_s = WINDOW.start_s + step_s * offset
    done_s = [first_s + number * step_s for number in range(int(4 / step_s))]
    assert counted(WINDOW, done_s) == pytest.approx(WINDOW.length_s / step_s, rel=1e-6)


@given(st.lists(st.floats(0.01, 0.3), min_size=40, max_size=60))
def test_adjacent_windows_count_as_one(gaps_s: list[float]) -> None:
    done_s = list(accumulate(gaps_s, initial=100.1))
    whole = StepWindow(100.0, 0.5, 1.0, tail_s=9.0)
    halves = StepWindow(100.0, 0.5, 0.5, tail_s=9.0), StepWindow(100.0, 1.0, 0.5, tail_s=9.0)
    if done_s[-1] > whole.counted_to_s:
        assert counted(whole, done_s) == pytest.approx(sum(counted(half, done_s) for half in halves))


def test_step_that_ended_without_neighbour_uses_the_earlier_pace() -> None:
    """Steps take 0.8 s beside a neighbour. The last one ended faster because the neighbour had stopped."""
    beside = [100.8, 101.6, 102.4]
    assert counted(WINDOW, [*beside, 102.8]) == pytest.approx(2.0 / 0.8)
    assert counted(WINDOW, [*beside, 103.2]) == pytest.approx(2.0 / 0.8)


def test_step_longer_than_the_window_counts_as_a_fraction() -> None:
    assert counted(WINDOW, [110.0]) == pytest.approx(0.2)


def test_run_continues_until_the_end_of_the_tail() -> None:
    now = [100.0]

    def step() -> None:
        now[0] += 0.1

    marks = HostMarks(lambda: now[0])
    assert run(step, marks, WINDOW, lambda: now[0]) == pytest.approx(20.0)
    assert marks.drained()[-1] >= WINDOW.counted_to_s + WINDOW.tail_s
