"""Memory of the cells, on a toy card: limits are real, and idle workers make room."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusquad.measure.cells import CellWorkload, MeasurementCell, SeriesSpec, plan
from gpusquad.measure.series_runner import Options, SeriesRunner
from gpusquad.measure.windows import Measurement
from tests.measure.toy_card import CONTEXT, GB, ToyCard

SIZES = {"small": 2 * GB, "middle": 5 * GB, "large": 8 * GB}
LIMIT = 12 * GB


def _played(card: ToyCard, limit: int | None = None, repeats: int = 2) -> list[Measurement]:
    found: list[Measurement] = []
    with SeriesRunner(card, lambda _: {}, Options(memory_bytes=limit)) as conductor:
        conductor.play(plan(SeriesSpec(tuple(card.sizes), repeats)), found.append)
    return found


@pytest.mark.parametrize("names_processes", [True, False])
def test_pairs_over_the_limit_have_no_room_and_all_others_do(names_processes: bool) -> None:
    card = ToyCard(SIZES, names_processes=names_processes)
    for one in _played(card, LIMIT):
        needed = sum(SIZES[name] + CONTEXT for name in one.cell.workloads)
        assert one.failed == ""
        assert one.fits == (needed <= LIMIT), one.cell
        assert one.memory_bytes == (needed if one.fits else 0)


def test_it_is_said_who_found_no_room() -> None:
    (full,) = [
        one
        for one in _played(ToyCard(SIZES), LIMIT, 1)
        if one.cell == MeasurementCell((CellWorkload("middle"), CellWorkload("large")))
    ]
    assert full.out_of_memory == (False, True)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=4), st.integers(24, 60))
@settings(max_examples=30, deadline=None)
def test_on_a_small_card_idle_workers_make_room(sizes: list[int], total: int) -> None:
    card = ToyCard({f"w{place}": size * GB for place, size in enumerate(sizes)}, total * GB)
    for one in _played(card):
        needed = sum(card.sizes[name] for name in one.cell.workloads)
        contexts = len(card.sizes) * 2 * CONTEXT
        assert one.fits == (needed + contexts <= card.total)


def test_nothing_is_held_in_the_end() -> None:
    card = ToyCard(SIZES)
    _played(card, LIMIT)
    assert not any(card.held.values())


def test_a_limit_below_a_context_has_no_room_for_anybody() -> None:
    assert not any(one.fits for one in _played(ToyCard(SIZES), CONTEXT // 2))


def test_a_window_that_came_too_late_is_tried_again_with_more_time() -> None:
    card = ToyCard(SIZES, start_delay_s=0.001, late=3)
    first, *_ = _played(card)
    assert first.steps == (10.0,)
    assert card.late == 0


def test_who_is_always_late_fails() -> None:
    first, *_ = _played(ToyCard(SIZES, late=10**6), repeats=1)
    assert "too late" in first.failed


def test_workers_that_no_later_turn_needs_are_let_go() -> None:
    card, held = ToyCard(SIZES), []
    turns = plan(SeriesSpec(tuple(SIZES), 1, triples=1, triple_repeats=1, splits_milli=(500,), split_repeats=1))
    with SeriesRunner(card, lambda _: {}, Options()) as conductor:
        conductor.play(turns, lambda one: held.append((one.cell, set(card.held) - {"monitor"})))
    triple = next(names for cell, names in held if len(cell.parts) == 3)
    assert triple == {f"{name}-1000-0" for name in SIZES} | {label for label in triple if "-500-" in label}
    split = next(names for cell, names in reversed(held))
    assert all("-500-" in label for label in split)
