"""Tests of recovery: how a new service treats the run folders and processes that it finds."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpusquad.core.ports import AttemptStarted
from gpusquad.engines.local import adoption, claim, orphans, processes
from gpusquad.engines.local.processes import ProcessIdentity
from gpusquad.engines.local.status import StatusFile
from tests.engines.contract import FOREVER
from tests.engines.harness import TIMEOUT_S, Bench, eventually, lines
from tests.engines.local.helpers import RECORD_RUN, is_alive, run_folder, supervisor_pid, wait_gone


def test_reused_pid_is_not_the_supervisor(bench: Bench, home: Path) -> None:
    """The test process has the pid of the claim, but another start time."""
    folder = run_folder(home, "job")
    folder.make()
    own = processes.identity(os.getpid())
    assert own is not None
    claim.take(folder, ProcessIdentity(own.pid, own.start_ticks - 1, own.boot_id))
    bench.engine.recover([("job", 0)])
    end = bench.reports.ended("job")
    assert (end.how, end.never_started) == ("lost", True)


def test_process_of_another_boot_is_not_the_supervisor(bench: Bench, home: Path) -> None:
    folder = run_folder(home, "job")
    folder.make()
    own = processes.identity(os.getpid())
    assert own is not None
    claim.take(folder, ProcessIdentity(own.pid, own.start_ticks, "another boot"))
    StatusFile.make(folder, 1).write(
        {"phase": "running", "boot_id": "another boot", "tasks": [[own.pid, own.start_ticks]]}
    )
    bench.engine.recover([("job", 0)])
    end = bench.reports.ended("job")
    assert (end.how, end.never_started) == ("lost", False)


def test_attempt_with_an_unreadable_claim_is_lost(bench: Bench, home: Path) -> None:
    folder = run_folder(home, "job")
    folder.make()
    Path(folder.claim).write_text("")
    bench.engine.recover([("job", 0)])
    assert bench.reports.ended("job").how == "lost"


def test_recorded_outcome_stands_when_the_supervisor_died(bench: Bench, home: Path) -> None:
    folder = run_folder(home, "job")
    folder.make()
    claim.take(folder, ProcessIdentity(1, 1, processes.boot_id()))
    end = {"how": "succeeded", "cause": "every task ended with exit code 0", "first": None, "never_started": False}
    StatusFile.make(folder, 1).write({"phase": "ending", "end": end})
    bench.engine.recover([("job", 0)])
    assert bench.reports.ended("job").how == "succeeded"
    found = adoption.examine(folder)
    assert isinstance(found, adoption.EndedAttempt)


def test_late_supervisor_does_not_run_a_lost_attempt(bench: Bench, home: Path) -> None:
    """The supervisor of a dead service tries to claim the folder after the next service gave up the attempt."""
    ran = bench.folder / "ran"
    bench.engine.recover([("job", 0)])
    bench.reports.ended("job")
    assert run_supervisor(run_folder(home, "job").path, order(f"{RECORD_RUN}{ran}")) == 4
    assert lines(ran) == []


def test_supervisor_rejects_a_truncated_order(home: Path, tmp_path: Path) -> None:
    folder = run_folder(home, "job")
    folder.make()
    complete = order(f"{RECORD_RUN}{tmp_path}/ran")
    for length in (0, 1, len(complete) // 2, len(complete) - 1):
        assert run_supervisor(folder.path, complete[:length]) == 3
    assert claim.read(folder) is None
    assert lines(tmp_path / "ran") == []


def test_unclaimed_folder_that_the_store_does_not_know_is_claimed(bench: Bench, home: Path) -> None:
    """A supervisor may still be starting for it."""
    ran = bench.folder / "ran"
    folder = run_folder(home, "job")
    folder.make()
    bench.engine.recover([])
    eventually(lambda: claim.read(folder))
    assert run_supervisor(folder.path, order(f"{RECORD_RUN}{ran}")) == 4
    assert lines(ran) == []


def order(command: str) -> bytes:
    task = {"rank": 0, "label": "worker 0", "command": ["/bin/sh", "-c", command], "env": {}, "cpu_milli": 0,
            "memory_bytes": 0}  # fmt: skip
    body = {"job_id": "job", "attempt": 0, "workdir": "/", "grace_s": 1.0, "run_as": None, "ports": [], "writable": [],
            "log_bytes": 1000, "log_segment_bytes": 100, "notes": [], "tasks": [task]}  # fmt: skip
    return json.dumps(body).encode() + b"\n"


def run_supervisor(folder: str, data: bytes) -> int:
    program = Path(adoption.__file__).with_name("supervisor") / "__main__.py"
    command = [sys.executable, "-I", "-S", "-X", "utf8", str(program), folder]
    return subprocess.run(command, input=data, timeout=TIMEOUT_S, stdout=subprocess.DEVNULL).returncode


def test_orphans_are_found_by_their_environment(bench: Bench, home: Path) -> None:
    """Without cgroups and supervisor, only the environment shows the owner."""
    folder = run_folder(home, "job")
    folder.make()
    claim.take(folder, ProcessIdentity(1, 1, processes.boot_id()))
    own_env = {"GPUSQUAD_JOB": "job", "GPUSQUAD_ATTEMPT": "0", "GPUSQUAD_PROGRESS": f"{folder.progress}/0"}
    other_envs = [
        {**own_env, "GPUSQUAD_ATTEMPT": "1"},
        {**own_env, "GPUSQUAD_JOB": "job2"},
        {**own_env, "GPUSQUAD_PROGRESS": "/another/home/runs/job/0/progress/0"},
    ]
    orphan = subprocess.Popen(["sleep", "600"], env=own_env, start_new_session=True)
    spared = [subprocess.Popen(["sleep", "600"], env=env, start_new_session=True) for env in other_envs]
    try:
        bench.engine.stop("job", 0, "not the others", 0.0)
        bench.reports.ended("job")
        assert orphan.wait(TIMEOUT_S) == -signal.SIGKILL
        assert all(is_alive(process.pid) for process in spared)
    finally:
        for process in [orphan, *spared]:
            process.kill()
            process.wait()


@pytest.mark.parametrize("folder_is_gone", [False, True])
def test_orphans_of_long_ended_attempts_are_found(bench: Bench, home: Path, folder_is_gone: bool) -> None:
    bench.launch("job", "true")
    bench.reports.ended("job")
    folder = run_folder(home, "job")
    if folder_is_gone:
        shutil.rmtree(home / "runs" / "job")
    env = {"GPUSQUAD_JOB": "job", "GPUSQUAD_ATTEMPT": "0", "GPUSQUAD_PROGRESS": f"{folder.progress}/0"}
    orphan = subprocess.Popen(["sleep", "600"], env=env, start_new_session=True)
    reports = bench.restart()
    bench.engine.recover([])
    assert orphan.wait(TIMEOUT_S) == -signal.SIGKILL
    assert reports.all == []


@pytest.mark.parametrize("name", ["../../etc", "job/..", ""])
def test_forged_environment_is_ignored(name: str) -> None:
    def folder_of(key):
        return run_folder(Path("/home/g"), *key)

    env = {"GPUSQUAD_JOB": name, "GPUSQUAD_ATTEMPT": "0", "GPUSQUAD_PROGRESS": "/home/g/runs/x/0/progress/0"}
    forger = subprocess.Popen(["sleep", "600"], env=env)
    try:
        assert not {key for key in orphans.marked_keys(folder_of) if key[0] == name}
    finally:
        forger.kill()
        forger.wait()


def test_tasks_die_with_their_supervisor(bench: Bench, home: Path) -> None:
    bench.launch("job", FOREVER, FOREVER)
    pids = bench.reports.started("job").pids
    bench.engine.close()
    os.kill(supervisor_pid(home, "job"), signal.SIGKILL)
    for pid in pids:
        wait_gone(pid)
    reports = bench.restart()
    bench.engine.recover([("job", 0)])
    end = reports.ended("job")
    assert (end.how, end.never_started) == ("lost", False)
    assert not any(isinstance(report, AttemptStarted) for report in reports.all)


def test_ports_of_adopted_gangs_stay_reserved(bench: Bench, home: Path) -> None:
    bench.launch("job", FOREVER)
    bench.reports.started("job")
    reports = bench.restart()
    bench.engine.recover([("job", 0)])
    reports.started("job")
    ports = set(bench.engine._watcher._ports._given)  # type: ignore[attr-defined]
    assert len(ports) == 2
