"""Tests of the service's interference model: files of ``gpusquad measure`` and rates that it learned itself."""

from __future__ import annotations

from pathlib import Path

from gpusquad.app.interference_files import LEARNED_FILE, InterferenceFiles
from gpusquad.measure.series_files import default_folder, save
from gpusquad.model.cluster import grid
from gpusquad.model.interference import (
    ConfidenceInterval,
    CoRun,
    MeasurementSeries,
    MeasurementSetting,
    SoloMeasurement,
)
from gpusquad.model.job import Job, Request, Role, Share

CLUSTER = grid("1x2")
GPU = CLUSTER.nodes[0].cards[0].model


def series(ratio: float, at_us: int = 1, sharing: str = "mps") -> MeasurementSeries:
    co_run = CoRun(("a", "b"), (1000, 1000), (ConfidenceInterval(ratio, ratio, ratio, 5),) * 2, ((ratio,) * 5,) * 2)
    solos = tuple(SoloMeasurement(name, ConfidenceInterval(10.0, 9.9, 10.1, 5), utilisation_ratio=0.9) for name in "ab")
    return MeasurementSeries(MeasurementSetting(GPU, "1", sharing), at_us, solos, (co_run,))  # type: ignore[arg-type]


def job(app: str) -> Job:
    return Job(app, (Role("main", 1, Request(share=Share(sm_milli=500))),), app=app)


def interference_files(home: Path) -> InterferenceFiles:
    return InterferenceFiles(home, home / "models", "mps", CLUSTER)


def test_model_is_empty_without_files(tmp_path: Path):
    assert interference_files(tmp_path).is_empty


def test_refresh_loads_new_files_once(tmp_path: Path):
    files = interference_files(tmp_path)
    save(series(0.4), default_folder(tmp_path))
    assert files.refresh()
    assert not files.is_empty
    assert abs(files.model.rate(job("a"), [job("b")], GPU) - 0.4) < 0.01
    assert not files.refresh()


def test_series_of_another_sharing_method_is_ignored(tmp_path: Path):
    save(series(0.4, sharing="time-slicing"), default_folder(tmp_path))
    assert interference_files(tmp_path).is_empty


def test_truncated_file_is_skipped(tmp_path: Path):
    save(series(0.4), default_folder(tmp_path))
    (default_folder(tmp_path) / "half.json").write_text('{"format": 1, "set')
    assert not interference_files(tmp_path).is_empty


def test_learned_rates_survive_a_restart_and_new_series(tmp_path: Path):
    save(series(0.8), default_folder(tmp_path))
    files = interference_files(tmp_path)
    for _ in range(60):
        files.model.learn(job("a"), [job("b")], GPU, 0.6, 600.0)
    learned = files.model.rate(job("a"), [job("b")], GPU)
    assert learned < 0.75
    files.save(files.model.dump())
    reloaded = interference_files(tmp_path)
    assert reloaded.model.rate(job("a"), [job("b")], GPU) == learned
    save(series(0.8, at_us=2), default_folder(tmp_path))
    assert reloaded.refresh()
    assert len(reloaded.model.online)


def test_service_starts_when_the_learned_file_is_invalid(tmp_path: Path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / LEARNED_FILE).write_text("[")
    assert interference_files(tmp_path).is_empty
