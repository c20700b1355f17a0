"""Tests of task logs: the newest output is kept within limits and readable at any time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.local.engine import LocalEngine, LogLimits
from gpusquad.engines.local.logs import AttemptLogReader
from gpusquad.engines.local.supervisor.log_writer import LogWriter
from gpusquad.model.errors import Invalid
from tests.engines.harness import Bench, eventually
from tests.engines.local.helpers import read_status

MIB = 2**20


def reader(home: Path, job_id: str = "job") -> AttemptLogReader:
    return AttemptLogReader(home / "runs" / job_id / "0")


def read_all(logs: AttemptLogReader, task: int, offset: int = 0, limit: int = 10_000) -> bytes:
    parts = []
    while (chunk := logs.read(task, offset, limit)).data:
        parts.append(chunk.data)
        offset = chunk.next_offset
    return b"".join(parts)


@pytest.fixture
def small(home: Path, tmp_path: Path) -> Iterator[Bench]:
    """An engine with small log limits."""
    created = Bench(partial(LocalEngine, home, log_limits=LogLimits(task_bytes=8 * MIB)), tmp_path)
    yield created
    created.close()


def test_stdout_and_stderr_are_stored_in_order(bench: Bench, home: Path) -> None:
    bench.launch("job", "echo one; echo two >&2; echo three", "true", "echo other")
    bench.reports.ended("job")
    logs = reader(home)
    assert logs.tasks() == [0, 2]
    assert read_all(logs, 0) == b"one\ntwo\nthree\n"
    assert read_all(logs, 2) == b"other\n"
    assert logs.size(0) == (0, 14)
    assert logs.size(1) == (0, 0)
    assert read_status(home, "job")["logs"] == [[14, 0], [0, 0], [6, 0]]


def test_arbitrary_bytes_are_stored(bench: Bench, home: Path) -> None:
    all_bytes = bytes(range(256)) * 10
    bench.launch("job", [sys.executable, "-c", f"import os; os.write(1, {all_bytes!r})"])
    bench.reports.ended("job")
    assert read_all(reader(home), 0, limit=7) == all_bytes


def test_output_just_before_a_kill_is_stored(bench: Bench, home: Path) -> None:
    bench.launch("job", f"head -c {1 * MIB} /dev/zero; echo last words; kill -9 $$")
    bench.reports.ended("job")
    assert read_all(reader(home), 0).endswith(b"\0last words\n")


def test_log_is_readable_while_the_task_runs(bench: Bench, home: Path) -> None:
    pipe = bench.pipe()
    os.mkfifo(bench.folder / "gate")
    bench.launch("job", f"echo first; echo said > {pipe.path}; read x < {bench.folder}/gate; echo second")
    pipe.next()
    logs = reader(home)
    eventually(lambda: logs.size(0)[1])  # the task has written; the supervisor has yet to store it
    chunk = logs.read(0, 0, 100)
    assert (chunk.offset, chunk.data, chunk.next_offset) == (0, b"first\n", 6)
    assert logs.read(0, 6, 100).data == b""
    (bench.folder / "gate").write_text("go\n")
    bench.reports.ended("job")
    assert logs.read(0, chunk.next_offset, 100).data == b"second\n"


def test_only_the_newest_output_is_kept_above_the_limit(small: Bench, home: Path) -> None:
    count = 64 * MIB // 16
    lines = "''.join('%015d\\n' % j for j in range(i, i + 4096))"
    flood = f"import sys\nfor i in range(0, {count}, 4096): sys.stdout.write({lines})"
    small.launch("job", [sys.executable, "-c", flood])
    assert small.reports.ended("job").how == "succeeded"
    logs = reader(home)
    first, end = logs.size(0)
    assert end == 64 * MIB
    assert 7 * MIB <= end - first <= 8 * MIB
    assert read_all(logs, 0, limit=MIB) == b"".join(b"%015d\n" % j for j in range(first // 16, count))
    on_disk = sum(path.stat().st_size for path in (home / "runs/job/0/logs").iterdir())
    assert on_disk == end - first
    assert read_status(home, "job")["logs"] == [[end, first]]
    chunk = logs.read(0, 0, 16)
    assert (chunk.offset, chunk.next_offset) == (first, first + 16)


def test_log_limit_of_an_attempt_is_divided_among_its_tasks() -> None:
    limits = LogLimits(task_bytes=100, attempt_bytes=400, segments=4)
    assert limits.of_task(1) == (100, 25)
    assert limits.of_task(8) == (48, 12)
    with pytest.raises(Invalid):
        LogLimits(task_bytes=0)


def test_tail_gives_the_offset_of_the_last_lines(bench: Bench, home: Path) -> None:
    bench.launch("job", "seq 1 100000", "printf 'a\\nb'", "true")
    bench.reports.ended("job")
    logs = reader(home)
    assert read_all(logs, 0, logs.tail(0, 3)) == b"99998\n99999\n100000\n"
    assert logs.tail(0, 0) == logs.size(0)[1]
    assert logs.tail(0, 10**9) == 0
    assert read_all(logs, 0, logs.tail(0, 50_000)).count(b"\n") == 50_000
    assert read_all(logs, 1, logs.tail(1, 1)) == b"b"
    assert read_all(logs, 1, logs.tail(1, 2)) == b"a\nb"
    assert logs.tail(2, 5) == 0


@pytest.mark.parametrize("task", [-1, "0", "../0", True])
def test_invalid_task_number_is_rejected(home: Path, task: int) -> None:
    with pytest.raises(Invalid):
        reader(home).read(task, 0, 10)


def test_other_files_are_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "0.00000000000000000000.log").write_text("kept")
    for name in ("x.log", "0.0.log", "0.0000000000000000000x.log", "0.00000000000000000000.log.gz", "-1.1.log"):
        (folder / name).write_text("no")
    logs = AttemptLogReader(tmp_path)
    assert logs.tasks() == [0]
    assert read_all(logs, 0) == b"kept"
    assert AttemptLogReader(tmp_path / "nowhere").tasks() == []


@given(writes=st.lists(st.binary(min_size=1, max_size=300), max_size=40), segment=st.integers(1, 50))
def test_stored_log_is_the_end_of_the_output(
    tmp_path_factory: pytest.TempPathFactory, writes: list[bytes], segment: int
) -> None:
    folder = tmp_path_factory.mktemp("run")
    (folder / "logs").mkdir()
    read_end, write_end = os.pipe()
    writer = LogWriter(str(folder / "logs"), 3, read_end, segment * 4, segment)
    for data in writes:
        os.write(write_end, data)
        writer.read_once()
    os.close(write_end)
    writer.drain()
    writer.close()
    written = b"".join(writes)
    logs = AttemptLogReader(folder)
    first, last = logs.size(3)
    assert last == len(written)
    assert last - first <= segment * 4
    assert last - first >= min(len(written), segment * 3)
    assert read_all(logs, 3) == written[first:]


def test_reading_skips_a_gap(tmp_path: Path) -> None:
    """A gap is output that was dropped while the disk was full."""
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / f"0.{10:020}.log").write_text("before")
    (folder / f"0.{100:020}.log").write_text("after")
    logs = AttemptLogReader(tmp_path)
    assert logs.size(0) == (10, 105)
    assert [logs.read(0, offset, 100).offset for offset in (0, 10, 15, 16, 50, 100, 104)] == [
        10,
        10,
        15,
        100,
        100,
        100,
        104,
    ]
    assert read_all(logs, 0) == b"beforeafter"
    assert logs.read(0, 105, 10).data == b""
