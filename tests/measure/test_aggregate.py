"""Windows to speeds and ratios."""

from __future__ import annotations

import json

import pytest

from gpusquad.measure.aggregate import gather
from gpusquad.measure.cells import CellWorkload, MeasurementCell
from gpusquad.measure.windows import Measurement
from gpusquad.model.interference import MeasurementSeries, MeasurementSetting
from gpusquad.model.interference_data import from_data, to_data

SETTING = MeasurementSetting("Fake", "1", "mps", 12 * 10**9)
A, B, PAIR = (
    MeasurementCell((CellWorkload("a"),)),
    MeasurementCell((CellWorkload("b"),)),
    MeasurementCell((CellWorkload("a"), CellWorkload("b"))),
)


def _done(cell: MeasurementCell, repeat: int, *steps: float, length_s: float = 1.0, **more: object) -> Measurement:
    return Measurement(cell, repeat, length_s, steps, tuple(False for _ in steps), **more)  # pyright: ignore


def _gathered(*windows: Measurement) -> MeasurementSeries:
    return gather(windows, SETTING, at_us=7)


def test_ratios_are_over_the_same_repeat_alone() -> None:
    found = _gathered(_done(A, 0, 100), _done(B, 0, 10), _done(PAIR, 0, 50, 8), _done(A, 1, 80), _done(PAIR, 1, 40, 9))
    (pair,) = found.co_runs
    assert pair.samples == ((0.5, 0.5), (0.8, 0.9))
    assert [one.mean for one in pair.ratios] == pytest.approx([0.5, 0.85])
    assert found.solo("a").steps_per_s.mean == 90  # pyright: ignore
    assert (found.setting, found.at_us) == (SETTING, 7)


def test_windows_of_other_lengths_count_by_their_own() -> None:
    found = _gathered(_done(A, 0, 100), _done(B, 0, 10), _done(PAIR, 0, 100, 2, length_s=4.0))
    assert found.co_runs[0].samples == ((0.25,), (0.05,))


def test_speed_by_share() -> None:
    half, quarter = MeasurementCell((CellWorkload("a", 500),)), MeasurementCell((CellWorkload("a", 250),))
    found = _gathered(_done(A, 0, 100), _done(half, 0, 70), _done(half, 1, 80), _done(quarter, 0, 40))
    assert found.solos[0].by_sm == ((250, 0.4), (500, 0.75), (1000, 1.0))


def test_no_room_once_is_no_room() -> None:
    full = Measurement(PAIR, 1, 1.0, out_of_memory=(False, True))
    found = _gathered(_done(A, 0, 100), _done(B, 0, 10), _done(PAIR, 0, 50, 8), full)
    (pair,) = found.co_runs
    assert not pair.fits
    assert pair.out_of_memory == (False, True)


def test_failed_windows_and_pairs_without_a_base_are_left_out() -> None:
    failed = Measurement(PAIR, 0, 1.0, failed="hangs")
    assert _gathered(_done(A, 0, 100), _done(B, 0, 10), failed).co_runs == ()
    assert _gathered(_done(A, 0, 100), _done(PAIR, 0, 50, 8)).co_runs == ()


def test_the_newest_of_a_repeat_counts() -> None:
    assert _gathered(_done(A, 0, 100), _done(A, 0, 60)).solos[0].steps_per_s.mean == 60


def test_goes_through_json() -> None:
    found = _gathered(_done(A, 0, 100, memory_bytes=5, power_w=3.0), _done(B, 0, 10), _done(PAIR, 0, 50, 8))
    assert from_data(json.loads(json.dumps(to_data(found)))) == found
    assert (found.solos[0].memory_bytes, found.solos[0].power_w) == (5, 3.0)
