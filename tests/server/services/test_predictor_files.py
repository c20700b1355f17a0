"""PredictorFiles: saving a predictor and loading it back unchanged or not at all."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gpusquad.model.job import Job, Request, Role
from gpusquad.model.prediction import PastRun
from gpusquad.server.services.prediction.predictor_files import PredictorFiles

LAST = (50, "01J", 2)


@pytest.fixture
def models(tmp_path: Path) -> PredictorFiles:
    return PredictorFiles(tmp_path / "models", "recent:last=3")


def trained_predictor(models: PredictorFiles):
    predictor = models.make()
    for run_us in (5, 6, 7):
        predictor.learn(PastRun(Job("j", (Role("task", 1, Request(gpus=1)),), user="ada"), run_us))
    return predictor


def rewrite(models: PredictorFiles, **changes) -> None:
    (path,) = models.folder.iterdir()
    content = json.loads(gzip.decompress(path.read_bytes())) | changes
    path.write_bytes(gzip.compress(json.dumps(content).encode()))


def test_saved_predictor_is_loaded_unchanged(models: PredictorFiles) -> None:
    predictor = trained_predictor(models)
    assert models.load() is None
    assert models.save(predictor, LAST)
    loaded = models.load()
    assert loaded is not None
    assert (loaded.last, loaded.predictor.dump()) == (LAST, predictor.dump())  # type: ignore[attr-defined]
    assert [path.name for path in models.folder.iterdir()] == ["recent_last=3-1.json.gz"]
    assert (models.folder.stat().st_mode & 0o777, next(models.folder.iterdir()).stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )


@pytest.mark.parametrize(
    "changes",
    [{"spec": "recent"}, {"format": 0}, {"last": [1]}, {"last": None}, {"model": {}}, {"model": {"runs": [1]}},
     {"model": []}],
)  # fmt: skip
def test_file_of_another_kind_is_not_loaded(models: PredictorFiles, changes: dict) -> None:
    models.save(trained_predictor(models), LAST)
    rewrite(models, **changes)
    assert models.load() is None


DAMAGED = {
    "empty": b"",
    "not compressed": b"x",
    "cut short": gzip.compress(b"{}")[:-5],
    "nested too deep": gzip.compress(b"[" * 100_000),
    "header only": b"\x1f\x8b",
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=list(DAMAGED))
def test_damaged_file_is_not_loaded(models: PredictorFiles, data: bytes) -> None:
    models.save(trained_predictor(models), LAST)
    next(models.folder.iterdir()).write_bytes(data)
    assert models.load() is None


def test_save_fails_without_an_error_when_the_folder_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file in the way")
    models = PredictorFiles(tmp_path / "models", "recent")
    assert not models.save(models.make(), LAST)
    assert models.load() is None


def test_failed_save_keeps_the_old_file(models: PredictorFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    models.save(trained_predictor(models), LAST)

    def full(descriptor: int) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        assert not models.save(models.make(), (60, "x", 0))
    loaded = models.load()
    assert loaded is not None
    assert loaded.last == LAST
