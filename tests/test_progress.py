"""``gpusquad.progress``, the function that training scripts call."""

import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusquad
from gpusquad import _progress


@pytest.fixture
def progress_file(tmp_path, monkeypatch):
    path = tmp_path / "0"
    monkeypatch.setenv("GPUSQUAD_PROGRESS", str(path))
    monkeypatch.setattr(_progress, "_written_s", float("-inf"))
    monkeypatch.setattr(_progress, "_pending", None)
    return path


def step_and_total(progress_file):
    return progress_file.read_text().split()[:2]


def test_progress_writes_step_total_and_time(progress_file):
    gpusquad.progress(3, 10)
    step, total, at_us = progress_file.read_text().split()
    assert (step, total) == ("3", "10")
    assert abs(int(at_us) - progress_file.stat().st_mtime_ns // 1000) < 60_000_000
    assert os.listdir(progress_file.parent) == ["0"]


def test_progress_without_total_writes_a_dash(progress_file):
    gpusquad.progress(3)
    assert step_and_total(progress_file) == ["3", "-"]


def test_frequent_calls_write_only_the_first_and_last_step(progress_file, monkeypatch):
    monkeypatch.setattr(_progress.time, "monotonic", lambda: 100.0)
    written = []
    monkeypatch.setattr(_progress, "_write", lambda path, step, total: written.append(step))
    for step in range(1001):
        gpusquad.progress(step, 1000)
    assert written == [0, 1000]


def test_progress_writes_again_after_the_minimum_interval(progress_file, monkeypatch):
    now_s = 100.0
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now_s)
    gpusquad.progress(1, 1000)
    now_s += 0.1
    gpusquad.progress(2, 1000)
    assert step_and_total(progress_file) == ["1", "1000"]
    now_s += 0.11
    gpusquad.progress(3, 1000)
    assert step_and_total(progress_file) == ["3", "1000"]


def test_pending_step_is_written_at_exit(tmp_path):
    script = "import gpusquad\nfor step in range(500): gpusquad.progress(step)"
    environment = {**os.environ, "GPUSQUAD_PROGRESS": str(tmp_path / "0")}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=60)
    assert step_and_total(tmp_path / "0") == ["499", "-"]


def test_forked_process_does_not_write_the_pending_step_of_its_parent(progress_file, monkeypatch):
    monkeypatch.setattr(_progress, "_pending", (os.getpid() + 1, 7, None))
    _progress._write_pending()
    assert not progress_file.exists()


def test_progress_does_nothing_outside_a_job(tmp_path, monkeypatch):
    monkeypatch.delenv("GPUSQUAD_PROGRESS", raising=False)
    gpusquad.progress(1, 2)
    monkeypatch.setenv("GPUSQUAD_PROGRESS", str(tmp_path / "no" / "such" / "folder"))
    gpusquad.progress(2, 2)
    assert os.listdir(tmp_path) == []


class RaisesOnInt:
    def __int__(self):
        raise RuntimeError("not on this device")


@pytest.mark.parametrize("step", [None, "many", float("nan"), float("inf"), [], RaisesOnInt(), -1])
def test_progress_never_raises_for_invalid_arguments(progress_file, step):
    gpusquad.progress(step, 10)
    gpusquad.progress(5, step)
    assert not progress_file.exists() or step_and_total(progress_file) == ["5", "-"]


@given(st.lists(st.tuples(st.integers(-5, 2**70), st.none() | st.integers(-5, 2**70)), max_size=20))
def test_progress_file_is_a_complete_line_for_any_numbers(tmp_path_factory, calls):
    path = tmp_path_factory.mktemp("progress") / "0"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUSQUAD_PROGRESS", str(path))
        for step, total in calls:
            patch.setattr(_progress, "_written_s", float("-inf"))
            gpusquad.progress(step, total)
    if path.exists():
        assert len(path.read_text().split()) == 3


def test_progress_is_safe_to_call_from_several_threads(progress_file, monkeypatch):
    monkeypatch.setattr(_progress, "_MIN_INTERVAL_S", 0.0)
    threads = [threading.Thread(target=lambda: [gpusquad.progress(n, 100) for n in range(100)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(progress_file.read_text().split()) == 3
    assert os.listdir(progress_file.parent) == ["0"]


def test_import_of_gpusquad_loads_neither_numpy_nor_progress():
    script = "import sys; before = set(sys.modules); import gpusquad; print(sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert "numpy" not in loaded.stdout
    assert "gpusquad._progress" not in loaded.stdout
    from_package = subprocess.run(
        [sys.executable, "-c", "from gpusquad import progress; progress(1)"], check=False, timeout=60
    )
    assert from_package.returncode == 0


def test_unknown_attribute_of_the_package_raises():
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        gpusquad.missing  # noqa: B018
