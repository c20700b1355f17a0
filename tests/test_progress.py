"""``gpusquad.progress``: what a training script calls."""

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
def file(tmp_path, monkeypatch):
    path = tmp_path / "0"
    monkeypatch.setenv("GPUSQUAD_PROGRESS", str(path))
    monkeypatch.setattr(_progress, "_written_s", float("-inf"))
    monkeypatch.setattr(_progress, "_pending", None)
    return path


def step_and_total(file):
    return file.read_text().split()[:2]


def test_it_writes_step_total_and_time(file):
    gpusquad.progress(3, 10)
    step, total, at_us = file.read_text().split()
    assert (step, total) == ("3", "10")
    assert abs(int(at_us) - file.stat().st_mtime_ns // 1000) < 60_000_000
    assert os.listdir(file.parent) == ["0"]


def test_a_total_need_not_be_known(file):
    gpusquad.progress(3)
    assert step_and_total(file) == ["3", "-"]


def test_many_calls_write_little_but_always_the_end(file, monkeypatch):
    monkeypatch.setattr(_progress.time, "monotonic", lambda: 100.0)
    written = []
    monkeypatch.setattr(_progress, "_write", lambda path, step, total: written.append(step))
    for step in range(1001):
        gpusquad.progress(step, 1000)
    assert written == [0, 1000]


def test_it_writes_again_after_a_while(file, monkeypatch):
    now_s = 100.0
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now_s)
    gpusquad.progress(1, 1000)
    now_s += 0.1
    gpusquad.progress(2, 1000)
    assert step_and_total(file) == ["1", "1000"]
    now_s += 0.11
    gpusquad.progress(3, 1000)
    assert step_and_total(file) == ["3", "1000"]


def test_what_was_held_back_is_written_at_the_exit(tmp_path):
    script = "import gpusquad\nfor step in range(500): gpusquad.progress(step)"
    environment = {**os.environ, "GPUSQUAD_PROGRESS": str(tmp_path / "0")}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, timeout=60)
    assert step_and_total(tmp_path / "0") == ["499", "-"]


def test_a_forked_worker_does_not_write_what_its_parent_held_back(file, monkeypatch):
    monkeypatch.setattr(_progress, "_pending", (os.getpid() + 1, 7, None))
    _progress._write_pending()
    assert not file.exists()


def test_outside_it_does_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv("GPUSQUAD_PROGRESS", raising=False)
    gpusquad.progress(1, 2)
    monkeypatch.setenv("GPUSQUAD_PROGRESS", str(tmp_path / "no" / "such" / "folder"))
    gpusquad.progress(2, 2)
    assert os.listdir(tmp_path) == []


class Refuses:
    def __int__(self):
        raise RuntimeError("not on this device")


@pytest.mark.parametrize("step", [None, "many", float("nan"), float("inf"), [], Refuses(), -1])
def test_nothing_that_is_passed_raises(file, step):
    gpusquad.progress(step, 10)
    gpusquad.progress(5, step)
    assert not file.exists() or step_and_total(file) == ["5", "-"]


@given(st.lists(st.tuples(st.integers(-5, 2**70), st.none() | st.integers(-5, 2**70)), max_size=20))
def test_any_numbers_leave_a_whole_line(tmp_path_factory, calls):
    path = tmp_path_factory.mktemp("progress") / "0"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUSQUAD_PROGRESS", str(path))
        for step, total in calls:
            patch.setattr(_progress, "_written_s", float("-inf"))
            gpusquad.progress(step, total)
    if path.exists():
        assert len(path.read_text().split()) == 3


def test_threads_do_not_get_in_each_others_way(file, monkeypatch):
    monkeypatch.setattr(_progress, "_MIN_INTERVAL_S", 0.0)
    threads = [threading.Thread(target=lambda: [gpusquad.progress(n, 100) for n in range(100)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(file.read_text().split()) == 3
    assert os.listdir(file.parent) == ["0"]


def test_importing_gpusquad_loads_nothing_but_itself():
    script = "import sys; before = set(sys.modules); import gpusquad; print(sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert "numpy" not in loaded.stdout
    assert "gpusquad._progress" not in loaded.stdout
    from_package = subprocess.run(
        [sys.executable, "-c", "from gpusquad import progress; progress(1)"], check=False, timeout=60
    )
    assert from_package.returncode == 0


def test_other_names_are_still_errors():
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        gpusquad.missing  # noqa: B018
