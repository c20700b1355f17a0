"""What a service knows of neighbours comes from the files of ``gpusquad measure``, and from what it learned itself."""

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


def table(ratio: float, at_us: int = 1, sharing: str = "mps") -> MeasurementSeries:
    together = CoRun(("a", "b"), (1000, 1000), (ConfidenceInterval(ratio, ratio, ratio, 5),) * 2, ((ratio,) * 5,) * 2)
    solos = tuple(SoloMeasurement(name, ConfidenceInterval(10.0, 9.9, 10.1, 5), utilisation_ratio=0.9) for name in "ab")
    return MeasurementSeries(MeasurementSetting(GPU, "1", sharing), at_us, solos, (together,))  # type: ignore[arg-type]


def job(app: str) -> Job:
    return Job(app, (Role("main", 1, Request(share=Share(sm_milli=500))),), app=app)


def known(home: Path) -> InterferenceFiles:
    return InterferenceFiles(home, home / "models", "mps", CLUSTER)


def test_nothing_is_known_at_first(tmp_path: Path):
    assert known(tmp_path).is_empty


def test_tables_count_from_the_next_look_on(tmp_path: Path):
    here = known(tmp_path)
    save(table(0.4), default_folder(tmp_path))
    assert here.refresh()
    assert not here.is_empty
    assert abs(here.model.rate(job("a"), [job("b")], GPU) - 0.4) < 0.01
    assert not here.refresh()


def test_tables_of_another_way_of_sharing_do_not_count(tmp_path: Path):
    save(table(0.4, sharing="time-slicing"), default_folder(tmp_path))
    assert known(tmp_path).is_empty


def test_a_file_that_is_none_is_passed_over(tmp_path: Path):
    save(table(0.4), default_folder(tmp_path))
    (default_folder(tmp_path) / "half.json").write_text('{"format": 1, "set')
    assert not known(tmp_path).is_empty


def test_what_was_learned_outlives_the_service_and_new_tables(tmp_path: Path):
    save(table(0.8), default_folder(tmp_path))
    here = known(tmp_path)
    for _ in range(60):
        here.model.learn(job("a"), [job("b")], GPU, 0.6, 600.0)
    learned = here.model.rate(job("a"), [job("b")], GPU)
    assert learned < 0.75
    here.save(here.model.dump())
    again = known(tmp_path)
    assert again.model.rate(job("a"), [job("b")], GPU) == learned
    save(table(0.8, at_us=2), default_folder(tmp_path))
    assert again.refresh()
    assert len(again.model.online)


def test_a_broken_file_of_what_was_learned_costs_no_start(tmp_path: Path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / LEARNED_FILE).write_text("[")
    assert known(tmp_path).is_empty
