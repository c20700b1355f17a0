"""Tests for aggregating measured windows to speeds and ratios."""

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


def _measurement(
    cell: MeasurementCell, repeat: int, *steps: float, length_s: float = 1.0, **fields: object
) -> Measurement:
    return Measurement(cell, repeat, length_s, steps, tuple(False for _ in steps), **fields)  # pyright: ignore


def _series(*windows: Measurement) -> MeasurementSeries:
    return gather(windows, SETTING, at_us=7)


def test_ratio_uses_the_solo_speed_of_the_same_repeat() -> None:
    found = _series(
        _measurement(A, 0, 100),
        _measurement(B, 0, 10),
        _measurement(PAIR, 0, 50, 8),
        _measurement(A, 1, 80),
        _measurement(PAIR, 1, 40, 9),
    )
    (pair,) = found.co_runs
    assert pair.samples == ((0.5, 0.5), (0.8, 0.9))
    assert [ratio.mean for ratio in pair.ratios] == pytest.approx([0.5, 0.85])
    assert found.solo("a").steps_per_s.mean == 90  # pyright: ignore
    assert (found.setting, found.at_us) == (SETTING, 7)


def test_speed_uses_the_length_of_each_window() -> None:
    found = _series(_measurement(A, 0, 100), _measurement(B, 0, 10), _measurement(PAIR, 0, 100, 2, length_s=4.0))
    assert found.co_runs[0].samples == ((0.25,), (0.05,))


def test_speed_by_sm_share_is_relative_to_the_whole_card() -> None:
    half, quarter = MeasurementCell((CellWorkload("a", 500),)), MeasurementCell((CellWorkload("a", 250),))
    found = _series(
        _measurement(A, 0, 100), _measurement(half, 0, 70), _measurement(half, 1, 80), _measurement(quarter, 0, 40)
    )
    assert found.solos[0].by_sm == ((250, 0.4), (500, 0.75), (1000, 1.0))


def test_pair_does_not_fit_when_one_repeat_ran_out_of_memory() -> None:
    out_of_memory_window = Measurement(PAIR, 1, 1.0, out_of_memory=(False, True))
    found = _series(_measurement(A, 0, 100), _measurement(B, 0, 10), _measurement(PAIR, 0, 50, 8), out_of_memory_window)
    (pair,) = found.co_runs
    assert not pair.fits
    assert pair.out_of_memory == (False, True)


def test_failed_windows_and_pairs_without_solo_are_omitted() -> None:
    failed = Measurement(PAIR, 0, 1.0, failed="hangs")
    assert _series(_measurement(A, 0, 100), _measurement(B, 0, 10), failed).co_runs == ()
    assert _series(_measurement(A, 0, 100), _measurement(PAIR, 0, 50, 8)).co_runs == ()


def test_newest_window_of_a_repeat_is_used() -> None:
    assert _series(_measurement(A, 0, 100), _measurement(A, 0, 60)).solos[0].steps_per_s.mean == 60


def test_series_round_trips_through_json() -> None:
    found = _series(
        _measurement(A, 0, 100, memory_bytes=5, power_w=3.0), _measurement(B, 0, 10), _measurement(PAIR, 0, 50, 8)
    )
    assert from_data(json.loads(json.dumps(to_data(found)))) == found
    assert (found.solos[0].memory_bytes, found.solos[0].power_w) == (5, 3.0)
