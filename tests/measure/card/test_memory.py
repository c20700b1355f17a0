"""The ballast and whom to park."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.measure.card.memory import chunks_to_hold, free_for, to_park

amounts = st.integers(0, 10**6)


@given(amounts, st.integers(0, 50), amounts, st.integers(1, 1000))
def test_the_ballast_leaves_at_most_what_is_wanted_and_misses_by_less_than_a_chunk(
    free: int, held: int, wanted: int, chunk: int
) -> None:
    count = chunks_to_hold(free, held, wanted, chunk)
    left = free + (held - count) * chunk
    assert count >= 0
    assert left <= wanted
    assert left > wanted - chunk or count == 0


def test_what_the_workers_hold_counts_against_the_limit() -> None:
    assert free_for(12, [3, 4]) == 5
    assert free_for(12, [8, 8]) == -4


@given(st.lists(st.integers(0, 100)), st.integers(0, 500))
def test_parks_no_more_than_needed_and_enough_where_it_can(held: list[int], missing: int) -> None:
    idle = dict(enumerate(held))
    parked = to_park(missing, idle)
    assert parked == list(idle)[: len(parked)]
    assert sum(held[one] for one in parked) >= min(missing, sum(held))
    assert sum(held[one] for one in parked[:-1]) < max(missing, 1)
