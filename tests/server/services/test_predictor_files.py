"""What was learned, kept in a file: read back as it was, or not at all."""

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


def taught(models: PredictorFiles):
    predictor = models.make()
    for run_us in (5, 6, 7):
        predictor.learn(PastRun(Job("j", (Role("task", 1, Request(gpus=1)),), user="ada"), run_us))
    return predictor


def rewrite(models: PredictorFiles, **changes) -> None:
    (path,) = models.folder.iterdir()
    kept = json.loads(gzip.decompress(path.read_bytes())) | changes
    path.write_bytes(gzip.compress(json.dumps(kept).encode()))


def test_it_comes_back_as_it_was(models: PredictorFiles) -> None:
    predictor = taught(models)
    assert models.load() is None
    assert models.save(predictor, LAST)
    kept = models.load()
    assert kept is not None
    assert (kept.last, kept.predictor.dump()) == (LAST, predictor.dump())  # type: ignore[attr-defined]
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
def test_what_is_of_another_kind_is_not_used(models: PredictorFiles, changes: dict) -> None:
    models.save(taught(models), LAST)
    rewrite(models, **changes)
    assert models.load() is None


DAMAGED = {
    "empty": b"",
    "not packed": b"x",
    "cut short": gzip.compress(b"{}")[:-5],
    "nested too deep": gzip.compress(b"[" * 100_000),
    "a beginning": b"\x1f\x8b",
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=list(DAMAGED))
def test_what_cannot_be_read_is_not_used(models: PredictorFiles, data: bytes) -> None:
    models.save(taught(models), LAST)
    next(models.folder.iterdir()).write_bytes(data)
    assert models.load() is None


def test_a_folder_that_cannot_be_written_is_no_disaster(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file in the way")
    models = PredictorFiles(tmp_path / "models", "recent")
    assert not models.save(models.make(), LAST)
    assert models.load() is None


def test_what_is_half_written_stays_aside(models: PredictorFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    models.save(taught(models), LAST)

    def full(descriptor: int) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        assert not models.save(models.make(), (60, "x", 0))
    kept = models.load()
    assert kept is not None
    assert kept.last == LAST
