"""The MPS pool of a card, with a program in the place of MPS's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.gpu.attach.mps_pool import MpsPool
from tests.gpu.attach.fake_mps import FakeMps


@pytest.fixture
def pool(tmp_path: Path, mps: FakeMps) -> MpsPool:
    return MpsPool("GPU-1", tmp_path / "mps")


def test_it_is_started_once(pool: MpsPool, mps: FakeMps, tmp_path: Path) -> None:
    assert pool.start()
    assert pool.start()
    assert MpsPool("GPU-1", tmp_path / "mps").start()  # as after a restart of the service
    assert mps.count("-d") == 1
    assert mps.asked[0] == "-d GPU-1"


def test_after_a_fault_it_is_made_anew(pool: MpsPool, mps: FakeMps) -> None:
    assert pool.start()
    left = pool.pipes / "left"
    left.touch()
    folder = pool.pipes.stat().st_ino
    mps.put("status", "FAULT\n")
    pool.repair()
    assert mps.count("quit") == 1
    assert mps.count("-d") == 2
    assert not left.exists()
    assert pool.pipes.stat().st_ino == folder  # containers have it mounted


def test_a_daemon_that_died_is_started_again(pool: MpsPool, mps: FakeMps) -> None:
    assert pool.start()
    (pool.pipes / "nvidia-cuda-mps-control.pid").unlink()
    assert pool.start()
    assert mps.count("-d") == 2


def test_it_is_not_looked_at_all_the_time(pool: MpsPool, mps: FakeMps) -> None:
    pool.repair()
    asked = len(mps.asked)
    pool.repair()
    assert len(mps.asked) == asked


def test_stopping_leaves_nothing(pool: MpsPool, mps: FakeMps) -> None:
    pool.stop()
    assert mps.asked == []
    assert pool.start()
    pool.stop()
    assert mps.count("quit") == 1
    assert not pool.pipes.exists()


def test_only_clients_are_let_go(pool: MpsPool, mps: FakeMps) -> None:
    assert pool.terminate([5]) == []
    assert pool.start()
    mps.put("clients", "5\n6\n")
    assert pool.terminate([5, 7]) == [5]
    assert mps.count("terminate_client") == 1
    assert "terminate_client 77 5" in mps.asked
    assert pool.pids() == [999999999, 77]


def test_says_why_there_is_none(pool: MpsPool, mps: FakeMps, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mps.put("broken", "")
    assert not pool.start()
    assert not pool.start()
    assert "cannot start" in pool.trouble
    assert sum("time-sliced" in record.getMessage() for record in caplog.records) == 1
    assert not MpsPool("GPU-1", tmp_path / "other", wanted=False).start()


def test_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    pool = MpsPool("GPU-1", tmp_path / "mps")
    assert not pool.start()
    assert "not installed" in pool.trouble
    assert pool.terminate([1]) == pool.pids() == []


def test_clients_are_told(pool: MpsPool, tmp_path: Path) -> None:
    env = pool.env(is_important=True)
    assert env["CUDA_MPS_PIPE_DIRECTORY"] == str(pool.pipes)
    assert env["CUDA_MPS_CLIENT_PRIORITY"] == "0"
    assert "CUDA_VISIBLE_DEVICES" not in env  # a UUID says which, and the engine has said it
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in env  # partitions need all of the card
    numbered = MpsPool("3", tmp_path / "other").env(is_important=False, limit_bytes=(1 << 30) + 1)
    assert numbered["CUDA_VISIBLE_DEVICES"] == "0"
    assert numbered["CUDA_MPS_CLIENT_PRIORITY"] == "1"
    assert numbered["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=1025M"
