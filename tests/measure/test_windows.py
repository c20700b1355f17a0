"""Tests for the file that stores the measured windows of a series."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.measure.cells import CellWorkload, MeasurementCell
from gpusquad.measure.windows import Measurement, WindowFile, from_line, to_line
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import MeasurementSetting

SETTING = MeasurementSetting("Fake", "1", "mps")
PAIR = MeasurementCell((CellWorkload("a"), CellWorkload("b", 500)))
ratio = st.floats(0, 1)


@given(st.builds(Measurement, st.just(PAIR), st.integers(0, 9), ratio, st.tuples(ratio, ratio), failed=st.text()))
def test_measurement_round_trips_through_a_line(measured: Measurement) -> None:
    assert from_line(to_line(measured) | {"steps": list(measured.steps)}) == measured


def test_reopened_file_contains_earlier_windows(tmp_path: Path) -> None:
    path = tmp_path / "series" / "windows.jsonl"
    first, second = (Measurement(PAIR, repeat, 1.0, (5.0, 6.0), (False, False)) for repeat in (0, 1))
    WindowFile(path, SETTING, 1.0).add(first)
    reopened = WindowFile(path, SETTING, 1.0)
    reopened.add(second)
    assert WindowFile(path, SETTING, 1.0).kept == [first, second]


def test_incomplete_last_line_is_dropped_and_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    first = Measurement(PAIR, 0, 1.0, (5.0, 6.0), (False, False))
    WindowFile(path, SETTING, 1.0).add(first)
    with path.open("a") as file:
        file.write('{"workloads": ["ü')
    reopened = WindowFile(path, SETTING, 1.0)
    assert reopened.kept == [first]
    reopened.add(first)
    assert WindowFile(path, SETTING, 1.0).kept == [first, first]


@pytest.mark.parametrize("other", [(MeasurementSetting("Other", "1", "mps"), 1.0), (SETTING, 2.0)])
def test_file_of_another_setting_or_length_is_refused(tmp_path: Path, other: tuple[MeasurementSetting, float]) -> None:
    WindowFile(tmp_path / "windows.jsonl", SETTING, 1.0)
    with pytest.raises(Invalid, match="another"):
        WindowFile(tmp_path / "windows.jsonl", *other)
