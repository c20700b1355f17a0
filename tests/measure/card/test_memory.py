"""Tests for the memory ballast and the choice of workers to park."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.measure.card.memory import chunks_to_hold, free_for, to_park

amounts = st.integers(0, 10**6)


@given(amounts, st.integers(0, 50), amounts, st.integers(1, 1000))
def test_ballast_leaves_at_most_the_target_within_one_chunk(free: int, held: int, target: int, chunk: int) -> None:
    count = chunks_to_hold(free, held, target, chunk)
    left = free + (held - count) * chunk
    assert count >= 0
    assert left <= target
    assert left > target - chunk or count == 0


def test_memory_of_workers_counts_against_the_limit() -> None:
    assert free_for(12, [3, 4]) == 5
    assert free_for(12, [8, 8]) == -4


@given(st.lists(st.integers(0, 100)), st.integers(0, 500))
def test_only_as_many_workers_as_needed_are_parked(held: list[int], missing: int) -> None:
    idle = dict(enumerate(held))
    parked = to_park(missing, idle)
    assert parked == list(idle)[: len(parked)]
    assert sum(held[name] for name in parked) >= min(missing, sum(held))
    assert sum(held[name] for name in parked[:-1]) < max(missing, 1)
