"""Tests for the memory of cells on a simulated card: limits, and parking of idle workers."""

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


def _run_series(card: ToyCard, limit: int | None = None, repeats: int = 2) -> list[Measurement]:
    found: list[Measurement] = []
    with SeriesRunner(card, lambda _: {}, Options(memory_bytes=limit)) as runner:
        runner.play(plan(SeriesSpec(tuple(card.sizes), repeats)), found.append)
    return found


@pytest.mark.parametrize("names_processes", [True, False])
def test_only_pairs_over_the_limit_do_not_fit(names_processes: bool) -> None:
    card = ToyCard(SIZES, names_processes=names_processes)
    for measurement in _run_series(card, LIMIT):
        needed = sum(SIZES[name] + CONTEXT for name in measurement.cell.workloads)
        assert measurement.failed == ""
        assert measurement.fits == (needed <= LIMIT), measurement.cell
        assert measurement.memory_bytes == (needed if measurement.fits else 0)


def test_workload_that_ran_out_of_memory_is_reported() -> None:
    (not_fitting,) = [
        measurement
        for measurement in _run_series(ToyCard(SIZES), LIMIT, 1)
        if measurement.cell == MeasurementCell((CellWorkload("middle"), CellWorkload("large")))
    ]
    assert not_fitting.out_of_memory == (False, True)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=4), st.integers(24, 60))
@settings(max_examples=30, deadline=None)
def test_idle_workers_release_memory_on_a_small_card(sizes: list[int], total: int) -> None:
    card = ToyCard({f"w{index}": size * GB for index, size in enumerate(sizes)}, total * GB)
    for measurement in _run_series(card):
        needed = sum(card.sizes[name] for name in measurement.cell.workloads)
        contexts = len(card.sizes) * 2 * CONTEXT
        assert measurement.fits == (needed + contexts <= card.total)


def test_all_memory_is_released_at_the_end() -> None:
    card = ToyCard(SIZES)
    _run_series(card, LIMIT)
    assert not any(card.held.values())


def test_nothing_fits_when_the_limit_is_below_a_context() -> None:
    assert not any(measurement.fits for measurement in _run_series(ToyCard(SIZES), CONTEXT // 2))


def test_late_window_is_retried() -> None:
    card = ToyCard(SIZES, start_delay_s=0.001, late=3)
    first, *_ = _run_series(card)
    assert first.steps == (10.0,)
    assert card.late == 0


def test_window_that_is_always_late_fails() -> None:
    first, *_ = _run_series(ToyCard(SIZES, late=10**6), repeats=1)
    assert "too late" in first.failed


def test_workers_not_needed_later_are_stopped() -> None:
    card, held = ToyCard(SIZES), []
    cell_repeats = plan(SeriesSpec(tuple(SIZES), 1, triples=1, triple_repeats=1, splits_milli=(500,), split_repeats=1))
    with SeriesRunner(card, lambda _: {}, Options()) as runner:
        runner.play(cell_repeats, lambda measurement: held.append((measurement.cell, set(card.held) - {"monitor"})))
    triple = next(names for cell, names in held if len(cell.parts) == 3)
    assert triple == {f"{name}-1000-0" for name in SIZES} | {label for label in triple if "-500-" in label}
    split = next(names for cell, names in reversed(held))
    assert all("-500-" in label for label in split)
