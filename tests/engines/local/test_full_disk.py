"""Tests with a full disk: only logs are lost, never an end or a stop."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from gpusquad.engines.local.engine import LocalEngine
from gpusquad.engines.local.logs import AttemptLogReader
from tests.engines.contract import FOREVER
from tests.engines.harness import Bench, Reports, eventually, launch
from tests.engines.local.helpers import read_status

MIB = 2**20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "gpusquad-test", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def bench(small_disk: Path, tmp_path: Path) -> Iterator[Bench]:
    created = Bench(partial(LocalEngine, small_disk / "home"), tmp_path)
    yield created
    created.close()


@pytest.fixture
def home(small_disk: Path) -> Path:
    return small_disk / "home"


def fill(folder: Path) -> Path:
    """Fill the file system to the last byte."""
    path = folder / "filler"
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
        while True:
            file.write(b"x")
    return path


def test_end_is_recorded_on_a_full_disk(bench: Bench, small_disk: Path, home: Path) -> None:
    os.mkfifo(bench.folder / "gate")
    bench.launch("job", f"read line < {bench.folder}/gate; exit 7", FOREVER)
    bench.reports.started("job")
    fill(small_disk)
    (bench.folder / "gate").write_text("go\n")
    end = bench.reports.ended("job")
    assert end.first is not None
    assert end.first.exit_code == 7
    assert read_status(home, "job")["end"]["first"]["exit_code"] == 7
    reports = bench.restart()
    bench.engine.recover([("job", 0)])
    assert reports.ended("job") == end


def test_gang_can_be_stopped_on_a_full_disk(bench: Bench, small_disk: Path) -> None:
    bench.launch("job", FOREVER)
    bench.reports.started("job")
    fill(small_disk)
    bench.engine.stop("job", 0, "no room", 10.0)
    end = bench.reports.ended("job")
    assert (end.how, end.cause) == ("stopped", "no room")


def test_gang_does_not_start_without_space_for_its_end(bench: Bench, small_disk: Path) -> None:
    filler = fill(small_disk)
    bench.launch("job", "true")
    end = bench.reports.ended("job")
    assert (end.how, end.never_started) == ("lost", True)
    assert "No space left" in end.cause
    filler.unlink()
    bench.launch("job", "true", attempt=1)
    assert bench.reports.ended("job", 1).how == "succeeded"


@pytest.mark.parametrize("free_bytes", [4096 * pages for pages in (1, 2, 4, 8, 12, 17, 19, 20, 25)])
def test_gang_starts_completely_or_not_at_all_on_a_nearly_full_disk(
    bench: Bench, small_disk: Path, free_bytes: int
) -> None:
    """At whichever step of the start the disk is full: the gang runs completely, or not at all and is reported lost."""
    filler = fill(small_disk)
    os.truncate(filler, filler.stat().st_size - free_bytes)
    bench.launch("job", "true", "true")
    end = bench.reports.ended("job")
    assert end.how == "succeeded" or (end.how == "lost" and end.never_started)


def test_log_output_is_dropped_and_counted_when_the_disk_is_full(bench: Bench, home: Path) -> None:
    """The log limit is larger than the disk. The task is not blocked, and the newest output is kept."""
    bench.launch("job", "seq 1 2000000")
    assert bench.reports.ended("job").how == "succeeded"
    written, dropped = read_status(home, "job")["logs"][0]
    assert written == len("".join(f"{number}\n" for number in range(1, 2_000_001)))
    logs = AttemptLogReader(home / "runs/job/0")
    assert 0 < dropped < written
    assert logs.size(0)[1] <= written
    assert sum(path.stat().st_size for path in (home / "runs/job/0/logs").iterdir()) == written - dropped


def test_logs_continue_when_space_is_free_again(bench: Bench, small_disk: Path, home: Path) -> None:
    pipe = bench.pipe()
    os.mkfifo(bench.folder / "gate")
    wait = f"read line < {bench.folder}/gate"
    bench.launch("job", f"echo before; echo ready > {pipe.path}; {wait}; seq 1 1000; echo ready > {pipe.path}; {wait}; "
                        "sleep 1.5; echo after")  # fmt: skip
    pipe.next()
    logs = AttemptLogReader(home / "runs/job/0")
    eventually(lambda: logs.size(0) == (0, 7))
    filler = fill(small_disk)
    (bench.folder / "gate").write_text("go\n")
    pipe.next()
    filler.unlink()
    (bench.folder / "gate").write_text("go\n")
    assert bench.reports.ended("job").how == "succeeded"
    text = b""
    offset = 0
    while (chunk := logs.read(0, offset, 10_000)).data:
        text, offset = text + chunk.data, chunk.next_offset
    assert text.startswith(b"before\n")
    assert text.endswith(b"after\n")
    assert offset == read_status(home, "job")["logs"][0][0]


def test_launch_is_reported_lost_when_no_folder_can_be_created(small_disk: Path) -> None:
    """Not even the run folder can be created."""
    for number in range(200):
        (small_disk / f"{number}").mkdir()
    fill(small_disk)
    reports = Reports()
    engine = LocalEngine(small_disk / "home", reports)
    engine.launch(launch("job", "true"))
    assert reports.ended("job").how == "lost"
    engine.close()
