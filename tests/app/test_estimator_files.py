"""Files of estimators: what their answers depend on, and what is read of their output."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpusquad.app import estimator_files
from gpusquad.app.estimator_files import EstimatorFiles
from gpusquad.core.ports import Launch, TaskLaunch
from gpusquad.server.services.jobs.estimator_answers import MAX_OUTPUT_BYTES

ARGV = ("/bin/sh", "-c", "python3 estimate.py --data big.bin")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    (path / "lib").mkdir(parents=True)
    (path / "estimate.py").write_text("import lib.net")
    (path / "lib" / "net.py").write_text("depth = 50")
    (path / "big.bin").write_bytes(b"data")
    (path / "output.log").write_text("")
    return path


def launch(folder: Path, **columns) -> Launch:
    task = TaskLaunch(0, "estimate", 0, "n", (), ARGV, env=columns.pop("env", {}))
    return Launch("job.estimate", 1, "job", columns.pop("tenant", "a"), "ann", (task,), str(folder), 1.0, **columns)


def fingerprint(folder: Path, argv=ARGV, **columns) -> str | None:
    return EstimatorFiles(folder.parent / "home").fingerprint(launch(folder, **columns), argv)


def test_equal_programs_have_equal_fingerprints(folder: Path) -> None:
    before = fingerprint(folder)
    (folder / "output.log").write_text("a log is no source")
    assert fingerprint(folder) == before


@pytest.mark.parametrize("name", ["estimate.py", "lib/net.py", "big.bin"])
def test_changed_source_or_named_file_changes_the_fingerprint(folder: Path, name: str) -> None:
    before = fingerprint(folder)
    (folder / name).write_text("something else")
    assert fingerprint(folder) != before


def test_content_of_a_named_file_counts_if_its_size_and_time_do_not_change(folder: Path) -> None:
    before, found = fingerprint(folder), (folder / "big.bin").stat()
    (folder / "big.bin").write_bytes(b"tada")
    os.utime(folder / "big.bin", ns=(found.st_atime_ns, found.st_mtime_ns))
    assert fingerprint(folder) != before


def test_environment_user_tenant_and_secrets_are_part_of_the_fingerprint(folder: Path) -> None:
    changed = [{"env": {"SEED": "1"}}, {"run_as": (1000, 1000)}, {"tenant": "b"}, {"secrets": {"KEY": "x"}}]
    found = {fingerprint(folder), *(fingerprint(folder, **columns) for columns in changed)}
    assert len(found) == len(changed) + 1


def test_folder_with_too_many_sources_has_no_fingerprint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimator_files, "MAX_FILES", 1)
    assert fingerprint(folder) is None


def test_named_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.py")
    assert fingerprint(folder, ("python3", "pipe.py")) is not None


def output(home: Path) -> Path:
    path = home / "runs" / "job.estimate" / "1" / "progress" / "0.out"
    path.parent.mkdir(parents=True)
    return path


def test_output_is_read_up_to_one_byte_more_than_allowed(tmp_path: Path) -> None:
    output(tmp_path).write_bytes(b"x" * (2 * MAX_OUTPUT_BYTES))
    printed, errors = EstimatorFiles(tmp_path).output("job.estimate", 1)
    assert printed is not None
    assert (len(printed), errors) == (MAX_OUTPUT_BYTES + 1, "")


def test_output_that_is_a_link_or_a_pipe_is_not_read(tmp_path: Path) -> None:
    path = output(tmp_path)
    (tmp_path / "secret").write_text("{}")
    path.symlink_to(tmp_path / "secret")
    assert EstimatorFiles(tmp_path).output("job.estimate", 1)[0] is None
    path.unlink()
    os.mkfifo(path)
    assert EstimatorFiles(tmp_path).output("job.estimate", 1)[0] is None
