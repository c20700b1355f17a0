"""The MPS pool of a card, with a fake MPS control program."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.gpu.attach.mps_pool import MpsPool
from tests.gpu.attach.fake_mps import FakeMps


@pytest.fixture
def pool(tmp_path: Path, mps: FakeMps) -> MpsPool:
    return MpsPool("GPU-1", tmp_path / "mps")


def test_pool_is_started_once(pool: MpsPool, mps: FakeMps, tmp_path: Path) -> None:
    assert pool.start()
    assert pool.start()
    assert MpsPool("GPU-1", tmp_path / "mps").start()  # as after a restart of the service
    assert mps.count("-d") == 1
    assert mps.commands[0] == "-d GPU-1"


def test_pool_is_restarted_in_the_same_folder_after_a_fault(pool: MpsPool, mps: FakeMps) -> None:
    assert pool.start()
    left = pool.pipes / "left"
    left.touch()
    folder = pool.pipes.stat().st_ino
    mps.put("status", "FAULT\n")
    pool.repair()
    assert mps.count("quit") == 1
    assert mps.count("-d") == 2
    assert not left.exists()
    assert pool.pipes.stat().st_ino == folder  # containers mount it


def test_dead_mps_daemon_is_started_again(pool: MpsPool, mps: FakeMps) -> None:
    assert pool.start()
    (pool.pipes / "nvidia-cuda-mps-control.pid").unlink()
    assert pool.start()
    assert mps.count("-d") == 2


def test_repair_is_rate_limited(pool: MpsPool, mps: FakeMps) -> None:
    pool.repair()
    count = len(mps.commands)
    pool.repair()
    assert len(mps.commands) == count


def test_stop_ends_mps_and_removes_its_pipes(pool: MpsPool, mps: FakeMps) -> None:
    pool.stop()
    assert mps.commands == []
    assert pool.start()
    pool.stop()
    assert mps.count("quit") == 1
    assert not pool.pipes.exists()


def test_only_clients_of_the_pool_are_terminated(pool: MpsPool, mps: FakeMps) -> None:
    assert pool.terminate([5]) == []
    assert pool.start()
    mps.put("clients", "5\n6\n")
    assert pool.terminate([5, 7]) == [5]
    assert mps.count("terminate_client") == 1
    assert "terminate_client 77 5" in mps.commands
    assert pool.pids() == [999999999, 77]


def test_failed_start_is_logged_once_with_its_cause(
    pool: MpsPool, mps: FakeMps, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mps.put("broken", "")
    assert not pool.start()
    assert not pool.start()
    assert "cannot start" in pool.trouble
    assert sum("time-sliced" in record.getMessage() for record in caplog.records) == 1
    assert not MpsPool("GPU-1", tmp_path / "other", wanted=False).start()


def test_pool_does_not_start_when_mps_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    pool = MpsPool("GPU-1", tmp_path / "mps")
    assert not pool.start()
    assert "not installed" in pool.trouble
    assert pool.terminate([1]) == pool.pids() == []


def test_client_environment_has_pipes_priority_and_memory_limit(pool: MpsPool, tmp_path: Path) -> None:
    env = pool.env(is_important=True)
    assert env["CUDA_MPS_PIPE_DIRECTORY"] == str(pool.pipes)
    assert env["CUDA_MPS_CLIENT_PRIORITY"] == "0"
    assert "CUDA_VISIBLE_DEVICES" not in env  # the engine sets it to the UUID
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in env  # SM partitions need the whole card
    numbered = MpsPool("3", tmp_path / "other").env(is_important=False, limit_bytes=(1 << 30) + 1)
    assert numbered["CUDA_VISIBLE_DEVICES"] == "0"
    assert numbered["CUDA_MPS_CLIENT_PRIORITY"] == "1"
    assert numbered["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=1025M"
