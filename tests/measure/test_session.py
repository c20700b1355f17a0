"""Tests for complete series with real worker processes and a fake card."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpusquad.measure.cells import CellRepeat, CellWorkload, MeasurementCell, SeriesSpec, plan
from gpusquad.measure.series_runner import Options, SeriesRunner, stretch
from gpusquad.measure.session import MEASURED_FILE, WINDOWS_FILE, Series, measure
from gpusquad.measure.windows import Measurement, from_line
from gpusquad.model.errors import Invalid
from gpusquad.model.interference_data import from_data
from tests.measure.fakes import BROKEN, DIES, HANGS, HEAVY, OTHER, QUICK, FakeCardLauncher

OPTIONS = Options(length_s=0.02, lead_in_s=0.005)


@pytest.fixture(autouse=True)
def _workers_can_import_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


def _series(*names: str, repeats: int = 1, **options: object) -> Series:
    return Series(SeriesSpec(names, repeats), replace(OPTIONS, **options))  # pyright: ignore


def _windows(folder: Path) -> list[Measurement]:
    lines = (folder / WINDOWS_FILE).read_text().splitlines()
    return [from_line(json.loads(line)) for line in lines[1:]]


def _by_name(folder: Path) -> dict[tuple[str, ...], Measurement]:
    return {
        tuple(name.partition(":")[2] for name in measurement.cell.workloads): measurement
        for measurement in _windows(folder)
    }


def test_series_is_measured_and_written(tmp_path: Path) -> None:
    reports: list[tuple[int, int, str]] = []
    series = _series(QUICK, OTHER, repeats=2)
    found = measure(
        series, FakeCardLauncher(tmp_path), tmp_path / "out", lambda *report: reports.append(report), lambda: 5
    )
    assert [solo.workload for solo in found.solos] == sorted([QUICK, OTHER])
    assert {run.workloads for run in found.co_runs} == {(QUICK, QUICK), (QUICK, OTHER), (OTHER, OTHER)}
    assert all(len(samples) == 2 and min(samples) > 0 for run in found.co_runs for samples in run.samples)
    assert (found.setting.gpu, found.at_us) == ("Fake", 5)
    assert [done for done, of, _ in reports] == list(range(1, 11))
    assert from_data(json.loads((tmp_path / "out" / MEASURED_FILE).read_text())) == found


def test_equal_workloads_use_two_processes_started_once(tmp_path: Path) -> None:
    launcher = FakeCardLauncher(tmp_path)
    measure(_series(QUICK, repeats=2), launcher, tmp_path / "out")
    labels = [label for label, _ in launcher.started]
    assert len(labels) == len(set(labels)) == 3  # the monitor and two workers


def test_completed_windows_are_not_measured_again(tmp_path: Path) -> None:
    measure(_series(QUICK), FakeCardLauncher(tmp_path), tmp_path / "out")
    before = _windows(tmp_path / "out")
    reports: list[str] = []
    series = _series(QUICK, repeats=2)
    found = measure(series, FakeCardLauncher(tmp_path), tmp_path / "out", lambda done, of, what: reports.append(what))
    after = _windows(tmp_path / "out")
    assert after[: len(before)] == before
    assert [measurement.repeat for measurement in after] == [0, 0, 1, 1]
    assert len(reports) == 2
    assert found.solos[0].steps_per_s.repeats == 2


def test_no_worker_is_started_without_a_time_budget(tmp_path: Path) -> None:
    launcher = FakeCardLauncher(tmp_path)
    found = measure(replace(_series(QUICK), budget_s=0.0), launcher, tmp_path / "out")
    assert found.solos == ()
    assert [label for label, _ in launcher.started] == ["monitor"]


def test_out_of_memory_is_recorded_and_not_retried(tmp_path: Path) -> None:
    measure(_series(QUICK, HEAVY, repeats=2), FakeCardLauncher(tmp_path), tmp_path / "out")
    found = _by_name(tmp_path / "out")
    assert found["heavy",].out_of_memory == (True,)
    assert found["quick", "heavy"].out_of_memory == (False, True)
    assert found["quick", "quick"].fits
    assert len([measurement for measurement in _windows(tmp_path / "out") if HEAVY in measurement.cell.workloads]) == 3


@pytest.mark.parametrize(("name", "why"), [(DIES, " ended"), (BROKEN, "a mistake")])
def test_failing_worker_affects_only_its_own_cells(tmp_path: Path, name: str, why: str) -> None:
    measure(_series(QUICK, name), FakeCardLauncher(tmp_path), tmp_path / "out")
    windows = _windows(tmp_path / "out")
    assert all((why in measurement.failed) == (name in measurement.cell.workloads) for measurement in windows)
    assert len(windows) == len(plan(SeriesSpec((QUICK, name), 1)))


def test_hanging_worker_fails_its_cell_only(tmp_path: Path) -> None:
    launcher, found = FakeCardLauncher(tmp_path), []
    cell_repeats = [CellRepeat(MeasurementCell((CellWorkload(name),)), 0) for name in (HANGS, QUICK)]
    with SeriesRunner(launcher, lambda _: {}, replace(OPTIONS, answer_timeout_s=2.0)) as runner:
        runner.play(cell_repeats, found.append)
    hung, healthy = found
    assert "did not answer in time" in hung.failed
    assert healthy.steps[0] > 0


def test_series_completes_with_few_workers_at_a_time(tmp_path: Path) -> None:
    launcher = FakeCardLauncher(tmp_path)
    found = measure(_series(QUICK, OTHER, max_workers=2), launcher, tmp_path / "out")
    assert len(found.co_runs) == 3


def test_splits_need_mps(tmp_path: Path) -> None:
    series = Series(SeriesSpec((QUICK,), splits_milli=(500,)), OPTIONS)
    with pytest.raises(Invalid, match="only MPS"):
        measure(series, FakeCardLauncher(tmp_path), tmp_path / "out")


def test_other_window_length_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    measure(_series(QUICK), FakeCardLauncher(tmp_path), tmp_path / "out")
    with pytest.raises(Invalid, match="another"):
        measure(_series(QUICK, length_s=0.03), FakeCardLauncher(tmp_path), tmp_path / "out")


@pytest.mark.parametrize(("steps", "factor"), [(0.0, 4), (0.5, 4), (1.5, 3), (2.9, 2)])
def test_windows_with_too_few_steps_are_stretched(steps: float, factor: int) -> None:
    assert stretch(steps) == factor
