"""The file that a series grows in."""

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
def test_lines_and_back(measured: Measurement) -> None:
    assert from_line(to_line(measured) | {"steps": list(measured.steps)}) == measured


def test_a_second_start_finds_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "series" / "windows.jsonl"
    one, two = (Measurement(PAIR, repeat, 1.0, (5.0, 6.0), (False, False)) for repeat in (0, 1))
    WindowFile(path, SETTING, 1.0).add(one)
    again = WindowFile(path, SETTING, 1.0)
    again.add(two)
    assert WindowFile(path, SETTING, 1.0).kept == [one, two]


def test_half_a_line_is_forgotten_and_written_over(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    one = Measurement(PAIR, 0, 1.0, (5.0, 6.0), (False, False))
    WindowFile(path, SETTING, 1.0).add(one)
    with path.open("a") as file:
        file.write('{"workloads": ["ü')
    torn = WindowFile(path, SETTING, 1.0)
    assert torn.kept == [one]
    torn.add(one)
    assert WindowFile(path, SETTING, 1.0).kept == [one, one]


@pytest.mark.parametrize("other", [(MeasurementSetting("Other", "1", "mps"), 1.0), (SETTING, 2.0)])
def test_figures_of_other_settings_are_not_mixed_in(tmp_path: Path, other: tuple[MeasurementSetting, float]) -> None:
    WindowFile(tmp_path / "windows.jsonl", SETTING, 1.0)
    with pytest.raises(Invalid, match="another"):
        WindowFile(tmp_path / "windows.jsonl", *other)
