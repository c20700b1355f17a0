"""Tests of the paths of runs and checkpoints, built from checked job ids and attempts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.local.names import all_keys, checkpoint_path, run_path
from gpusquad.model.errors import Invalid

HOME = Path("/home/g")


@given(st.text(), st.integers())
def test_run_path_stays_inside_the_home_or_is_refused(job_id: str, attempt: int) -> None:
    try:
        path = run_path(HOME, job_id, attempt)
    except Invalid:
        return
    assert path.parts == (*HOME.parts, "runs", job_id, str(attempt))
    assert ".." not in path.parts
    assert "\0" not in str(path)


def test_paths_of_valid_names() -> None:
    assert run_path(HOME, "01HZX3K5Q8", 0) == HOME / "runs/01HZX3K5Q8/0"
    assert checkpoint_path(HOME, "a.b_c-d") == HOME / "checkpoints/a.b_c-d"


def test_only_run_folders_are_found(tmp_path: Path) -> None:
    for name in ("job/0", "job/12", "job/007", "job/x", ".hidden/0", "other/3"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    (tmp_path / "runs/job/5").write_text("a file")
    (tmp_path / "runs/job/6").symlink_to(tmp_path)
    assert sorted(all_keys(tmp_path)) == [("job", 0), ("job", 12), ("other", 3)]
    assert all_keys(tmp_path / "nowhere") == []
    with pytest.raises(Invalid):
        checkpoint_path(tmp_path, "..")
