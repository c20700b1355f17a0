"""Tests of the files of a run folder: status, claim and stop request."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.local import atomic_file, claim, status, stop_file
from gpusquad.engines.local.processes import ProcessIdentity
from gpusquad.engines.local.run_folder import RunFolder
from gpusquad.engines.local.status import StatusFile
from gpusquad.engines.local.stop_file import StopRequest


def run_folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(str(tmp_path / "run"))
    folder.make()
    return folder


def test_newest_status_is_read(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    assert status.read(folder) is None
    file = StatusFile.make(folder, 1)
    assert status.read(folder) is None
    size = os.path.getsize(folder.status)
    for number in range(5):
        file.write({"phase": "running", "number": number})
        assert status.read(folder) == {"phase": "running", "number": number}
    assert os.path.getsize(folder.status) == size == 64 * 1024


def test_new_status_writer_continues_the_file(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    StatusFile.make(folder, 1).write({"number": 1})
    StatusFile.take_over(folder).write({"number": 2})
    assert status.read(folder) == {"number": 2}


@given(cut=st.integers(0, 32 * 1024), garbage=st.binary(max_size=100))
def test_previous_status_is_read_when_the_writer_was_killed(tmp_path_factory, cut: int, garbage: bytes) -> None:
    """A slot that was written in part, followed by old or arbitrary bytes, leaves the previous status valid."""
    folder = run_folder(tmp_path_factory.mktemp("home"))
    file = StatusFile.make(folder, 1)
    file.write({"number": 1})
    file.write({"number": 2})
    before = Path(folder.status).read_bytes()
    file.write({"number": 3, "text": "x" * 20_000})
    after = Path(folder.status).read_bytes()
    torn = bytearray(before)
    torn[32 * 1024 : 32 * 1024 + cut] = after[32 * 1024 : 32 * 1024 + cut]
    torn[32 * 1024 + cut : 32 * 1024 + cut + len(garbage)] = garbage
    Path(folder.status).write_bytes(bytes(torn[: 64 * 1024]))
    found = status.read(folder)
    assert found is not None
    assert found["number"] in (2, 3)


def test_long_status_is_shortened(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    file = StatusFile.make(folder, 1)
    end = {"how": "failed", "cause": "x" * 50_000, "first": {"task": 0, "cause": "x" * 50_000}, "never_started": False}
    file.write({"phase": "ended", "end": end, "logs": [[1, 2]] * 10_000})
    found = status.read(folder)
    assert found is not None
    assert (found["phase"], found["end"]["how"]) == ("ended", "failed")


def test_folder_is_claimed_only_once(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    assert claim.read(folder) is None
    assert claim.take(folder, ProcessIdentity(1, 2, "boot"))
    assert not claim.take(folder, ProcessIdentity(3, 4, "boot"))
    assert not claim.void(folder, {"how": "lost"})
    found = claim.read(folder)
    assert found is not None
    assert found.supervisor is not None
    assert (found.supervisor.pid, found.supervisor.start_ticks, found.supervisor.boot_id) == (1, 2, "boot")
    assert sorted(os.listdir(folder.path)) == ["claim", "logs", "progress"]


def test_unreadable_claim_is_still_a_claim(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    Path(folder.claim).write_text("")
    found = claim.read(folder)
    assert found is not None
    assert (found.supervisor, found.end) == (None, None)
    assert not claim.take(folder, ProcessIdentity(1, 2, "boot"))


def test_preparing_the_stop_file_keeps_an_existing_request(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    assert stop_file.read(folder) is None
    stop_file.ask(folder, StopRequest("왜냐하면 " * 1000, 1.5))
    stop_file.reserve(folder)
    found = stop_file.read(folder)
    assert found is not None
    assert found.cause.startswith("왜냐하면")
    assert found.grace_s == 1.5
    assert os.path.getsize(folder.stop) == 4096


def test_prepared_stop_file_is_no_stop_request(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    stop_file.reserve(folder)
    assert stop_file.read(folder) is None
    stop_file.ask(folder, StopRequest("now", 0.0))
    stop_file.ask(folder, StopRequest("now, please", 0.0))
    found = stop_file.read(folder)
    assert found is not None
    assert found.cause == "now, please"


def test_atomic_file_is_placed_once_and_completely(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    assert atomic_file.place(path, b"first")
    assert not atomic_file.place(path, b"second")
    assert atomic_file.read(path) == b"first"
    assert os.listdir(tmp_path) == ["file"]
