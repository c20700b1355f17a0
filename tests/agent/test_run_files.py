"""Tests of reading output and progress from the folder of a run."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad import _progress
from gpusquad.agent.run_files import TAIL_BYTES, RunFiles, RunReading

NOW = 2_000_000_000_000_000


@pytest.fixture
def run(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "progress").mkdir()
    return tmp_path


def log(run, text, task=0, start=0, at_us=NOW):
    """Append to a segment, as the supervisor does."""
    path = run / "logs" / f"{task}.{start:020d}.log"
    with path.open("ab") as file:
        file.write(text.encode())
    os.utime(path, ns=(at_us * 1000, at_us * 1000))
    return path


def write_progress(run, text, task=0):
    (run / "progress" / str(task)).write_text(text)


def step_and_total(reading):
    return (reading.step, reading.total)


def test_run_without_output_has_no_progress(run, tmp_path):
    assert RunFiles(run).look(NOW) == RunReading()
    assert RunFiles(tmp_path / "missing").look(NOW) == RunReading()
    log(run, "")
    assert RunFiles(run).look(NOW) == RunReading(tasks=1)


def test_output_is_counted_over_tasks_and_segments(run):
    log(run, "x" * 100, task=0, at_us=NOW - 50)
    log(run, "x" * 10, task=0, start=100, at_us=NOW - 20)
    log(run, "x" * 5, task=1, start=1000, at_us=NOW - 30)
    reading = RunFiles(run).look(NOW)
    assert (reading.log_bytes, reading.last_output_us) == (110 + 1005, NOW - 20)


def test_progress_is_read_from_growing_output(run):
    files = RunFiles(run)
    log(run, "\r 1%|  | 1/100 [00:01<00:02]\r 2%|  | 2/100 [00:01<00:02]", at_us=NOW)
    assert step_and_total(files.look(NOW)) == (1, 100)
    reading = files.look(NOW + 1)  # no more output followed, so the bar is complete
    assert (*step_and_total(reading), reading.progress_at_us) == (2, 100, NOW)
    log(run, "\r 3%|  | 3/100 [00:01<00:02]\n", at_us=NOW + 5)
    reading = files.look(NOW + 6)
    assert (*step_and_total(reading), reading.progress_at_us) == (3, 100, NOW + 5)
    log(run, "epoch done\n", at_us=NOW + 9)
    assert files.look(NOW + 9).progress_at_us == NOW + 5


def test_only_the_end_of_a_flood_is_read(run):
    files = RunFiles(run)
    log(run, "step 1/100\n")
    files.look(NOW)
    log(run, "step 50/100\n" + "noise\n" * TAIL_BYTES)
    assert step_and_total(files.look(NOW)) == (1, 100)
    log(run, "noise\n" * TAIL_BYTES + "step 60/100\n")
    assert step_and_total(files.look(NOW)) == (60, 100)


def test_new_segment_continues_where_the_old_one_ended(run):
    files = RunFiles(run)
    first = log(run, "step 1/100\n")
    files.look(NOW)
    log(run, "step 2/100\n", start=11)
    first.unlink()
    assert step_and_total(files.look(NOW)) == (2, 100)


def test_progress_of_the_first_task_is_the_runs(run):
    log(run, "loading\n", task=0)
    log(run, "step 7/100\n", task=2)
    log(run, "step 5/100\n", task=10)
    assert step_and_total(RunFiles(run).look(NOW)) == (7, 100)


def test_reported_progress_takes_precedence_and_the_slowest_task_counts(run):
    log(run, "step 99/100\n")
    write_progress(run, f"40 100 {NOW - 7}\n", task=0)
    write_progress(run, f"30 100 {NOW - 9}\n", task=1)
    reading = RunFiles(run).look(NOW)
    assert step_and_total(reading) == (30, 100)


def test_progress_time_is_that_of_the_last_change(run):
    files = RunFiles(run)
    write_progress(run, f"40 100 {NOW}\n")
    assert files.look(NOW + 5).progress_at_us == NOW
    write_progress(run, f"40 100 {NOW + 10}\n")
    assert files.look(NOW + 20).progress_at_us == NOW
    write_progress(run, f"41 - {NOW + 30}\n")
    reading = files.look(NOW + 40)
    assert (*step_and_total(reading), reading.progress_at_us) == (41, None, NOW + 30)


def test_progress_written_by_gpusquad_progress_is_read(run):
    path = str(run / "progress" / "3")
    _progress._write(path, 4, 9)
    assert step_and_total(RunFiles(run).look(NOW)) == (4, 9)
    _progress._write(path, 5, None)
    assert step_and_total(RunFiles(run).look(NOW)) == (5, None)


@pytest.mark.parametrize("text", ["", "40", "40 100", "a b c", "-1 100 5", "1 0 5", "1 100 -5", "9" * 300, "1 1e3 5"])
def test_invalid_progress_file_is_ignored(run, text):
    write_progress(run, text)
    assert RunFiles(run).look(NOW) == RunReading()


def test_progress_is_capped_at_the_total_and_its_time_at_now(run):
    write_progress(run, f"500 100 {NOW * 10}")
    reading = RunFiles(run).look(NOW)
    assert (*step_and_total(reading), reading.progress_at_us) == (100, 100, NOW)


def test_links_pipes_and_folders_are_ignored(run, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(f"40 100 {NOW}")
    (run / "progress" / "0").symlink_to(secret)
    os.mkfifo(run / "progress" / "1")  # opening one for reading would wait for a writer
    (run / "progress" / "2").mkdir()
    (run / "progress" / "0.tmp").write_text(f"40 100 {NOW}")
    os.mkfifo(run / "logs" / f"0.{0:020d}.log")
    (run / "logs" / f"1.{0:020d}.log").symlink_to(secret)
    (run / "logs" / "notes.txt").write_text("step 1/2\n")
    assert RunFiles(run).look(NOW) == RunReading()


@given(chunks=st.lists(st.binary(max_size=300), max_size=10), progress=st.binary(max_size=300))
def test_arbitrary_bytes_are_handled(tmp_path_factory, chunks, progress):
    run = tmp_path_factory.mktemp("run")
    (run / "logs").mkdir()
    (run / "progress").mkdir()
    (run / "progress" / "0").write_bytes(progress)
    files = RunFiles(run)
    for chunk in chunks:
        with (run / "logs" / f"0.{0:020d}.log").open("ab") as file:
            file.write(chunk)
        reading = files.look(NOW)
        assert reading.total is None or reading.step <= reading.total
    assert files.look(NOW).log_bytes == sum(map(len, chunks))
