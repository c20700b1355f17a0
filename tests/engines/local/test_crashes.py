"""Tests with services and supervisors killed at random times: no task runs twice, and every attempt has one end."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from gpusquad.core.ports import AttemptEnded
from gpusquad.engines.local.engine import LocalEngine
from tests.conftest import REPOSITORY
from tests.engines.contract import FOREVER
from tests.engines.harness import Bench, Reports, eventually, launch, lines
from tests.engines.local.helpers import RECORD_RUN, is_alive, run_folder, supervisor_pid

GANGS = 6
TASKS = 2
ROUNDS = 6


def start_service(home: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.engines.local.service", str(home)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def orders(ran: Path, round_number: int) -> list[dict]:
    """Short gangs, and gangs that run until stopped."""
    commands = [f"{RECORD_RUN}{ran}; sleep 0.1", f"{RECORD_RUN}{ran}; {FOREVER}"]
    return [
        {"job": f"job{number}", "attempt": round_number, "commands": [commands[number % 2]] * TASKS}
        for number in range(GANGS)
    ]


def crash(home: Path, orders: list[dict], delay_s: float) -> list[tuple[str, int]]:
    """Run a service, kill it ``delay_s`` after its first launch and return the keys that its store would have."""
    service = start_service(home)
    assert service.stdin is not None
    assert service.stdout is not None
    service.stdin.write("".join(json.dumps(order) + "\n" for order in orders).encode())
    service.stdin.flush()
    first = service.stdout.readline()
    time.sleep(delay_s)
    service.kill()
    rest = service.stdout.read()
    service.wait()
    output = [line.split() for line in (first + rest).decode().splitlines(keepends=True) if line.endswith("\n")]
    return [(words[0], int(words[1])) for words in output if words[0] != "*"]


def recover(home: Path, keys: list[tuple[str, int]]) -> Reports:
    """Reports of a new service that recovers the attempts and stops those that still run."""
    reports = Reports()
    engine = LocalEngine(home, reports)
    engine.recover(keys)
    for key in keys:
        engine.stop(*key, "the test is over", 0.0)
    for key in keys:
        reports.ended(*key)
    engine.close()
    return reports


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_no_task_runs_twice_when_the_service_is_killed(home: Path, tmp_path: Path, seed: int) -> None:
    random_source = random.Random(seed)
    ran = tmp_path / "ran"
    ends: dict[tuple[str, int], AttemptEnded] = {}
    for round_number in range(ROUNDS):
        keys = crash(home, orders(ran, round_number), random_source.uniform(0.0, 0.25))
        assert keys
        reports = recover(home, keys)
        for key in keys:
            assert len({(end.how, end.never_started) for end in reports.ends(*key)}) == 1
            ends[key] = reports.ended(*key)
    counts = Counter(tuple(line.split()[:3]) for line in lines(ran))
    assert all(count == 1 for count in counts.values()), counts
    for (job_id, attempt), end in ends.items():
        started = sum((job_id, str(attempt), str(task)) in counts for task in range(TASKS))
        if end.never_started:
            assert started == 0, end
        if end.how == "succeeded":
            assert started == TASKS, end
    assert not [line for line in lines(ran) if is_alive(int(line.split()[3]))]
    # Every task that ran belongs to an attempt in the store.
    assert {(job_id, int(attempt)) for job_id, attempt, _ in counts} <= ends.keys()


def test_recover_twice_gives_the_same_result(home: Path, tmp_path: Path) -> None:
    keys = crash(home, orders(tmp_path / "ran", 0), 0.05)
    first, second = recover(home, keys), recover(home, keys)
    for key in keys:
        assert first.ended(*key) == second.ended(*key)


def test_tasks_end_when_their_supervisors_are_killed(bench: Bench, home: Path) -> None:
    """Killed at random times, with tasks that have children in other sessions: all processes end."""
    random_source = random.Random(7)
    ran = bench.folder / "ran"
    detached_child = f"(setsid sh -c '{RECORD_RUN}{ran}; {FOREVER}' &)"
    for number in range(20):
        bench.launch(f"job{number}", f"{RECORD_RUN}{ran}; {detached_child}; {FOREVER}", f"{RECORD_RUN}{ran}; {FOREVER}")
        time.sleep(random_source.uniform(0.0, 0.12))
        if os.path.exists(run_folder(home, f"job{number}").claim):
            os.kill(supervisor_pid(home, f"job{number}"), signal.SIGKILL)
        else:
            bench.engine.stop(f"job{number}", 0, "too slow to be killed", 0.0)
    for number in range(20):
        end = bench.reports.ended(f"job{number}")
        assert end.how in ("lost", "stopped")
        started = [line for line in lines(ran) if line.startswith(f"job{number} ")]
        assert not (end.never_started and started)
        assert not [line for line in started if is_alive(int(line.split()[3]))]


def test_orphans_are_killed_when_service_and_supervisor_were_killed(home: Path, tmp_path: Path) -> None:
    """No process sees the end; the next service finds the orphans."""
    ran = tmp_path / "ran"
    detached_child = f"(setsid sh -c '{RECORD_RUN}{ran}; {FOREVER}' &) ; {RECORD_RUN}{ran}; {FOREVER}"
    service = start_service(home)
    assert service.stdin is not None
    assert service.stdout is not None
    service.stdin.write(
        json.dumps({"job": "job", "attempt": 0, "commands": [detached_child, FOREVER]}).encode() + b"\n"
    )
    service.stdin.flush()
    assert any(line.startswith(b"* AttemptStarted") for line in service.stdout)
    eventually(lambda: len(lines(ran)) == 2)
    service.kill()
    service.wait()
    os.kill(supervisor_pid(home, "job"), signal.SIGKILL)
    reports = Reports()
    engine = LocalEngine(home, reports)
    engine.recover([("job", 0)])
    end = reports.ended("job")
    engine.close()
    assert (end.how, end.never_started) == ("lost", False)
    assert not [line for line in lines(ran) if is_alive(int(line.split()[3]))]


def test_requested_stop_survives_service_and_supervisor(home: Path) -> None:
    """A stop is requested, then service and supervisor are killed: the gang is still stopped."""
    reports = Reports()
    engine = LocalEngine(home, reports)
    engine.launch(launch("job", f"trap '' TERM; {FOREVER}"))
    reports.started("job")
    engine.stop("job", 0, "preempted", 3600.0)
    eventually(lambda: b"preempted" in Path(run_folder(home, "job").stop).read_bytes())
    engine.close()
    os.kill(supervisor_pid(home, "job"), signal.SIGKILL)
    new_reports = Reports()
    engine = LocalEngine(home, new_reports)
    engine.recover([("job", 0)])
    end = new_reports.ended("job")
    engine.close()
    assert (end.how, end.cause) == ("stopped", "preempted")
