"""The service and supervisors are killed at random instants: nothing runs twice, and every attempt has one end."""

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
from tests.engines.local.helpers import COUNT_ME, is_alive, run_folder, supervisor_pid

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
    """Short ones, and some that would run for ever."""
    commands = [f"{COUNT_ME}{ran}; sleep 0.1", f"{COUNT_ME}{ran}; {FOREVER}"]
    return [
        {"job": f"job{number}", "attempt": round_number, "commands": [commands[number % 2]] * TASKS}
        for number in range(GANGS)
    ]


def crash(home: Path, told: list[dict], delay_s: float) -> list[tuple[str, int]]:
    """Run a service and kill it that long after its first launch. Returns what its store would know."""
    service = start_service(home)
    assert service.stdin is not None
    assert service.stdout is not None
    service.stdin.write("".join(json.dumps(order) + "\n" for order in told).encode())
    service.stdin.flush()
    first = service.stdout.readline()
    time.sleep(delay_s)
    service.kill()
    rest = service.stdout.read()
    service.wait()
    said = [line.split() for line in (first + rest).decode().splitlines(keepends=True) if line.endswith("\n")]
    return [(words[0], int(words[1])) for words in said if words[0] != "*"]


def recovered(home: Path, keys: list[tuple[str, int]]) -> Reports:
    """What a new service finds out; what still runs is stopped."""
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
def test_the_service_is_killed(home: Path, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    ran = tmp_path / "ran"
    ends: dict[tuple[str, int], AttemptEnded] = {}
    for round_number in range(ROUNDS):
        keys = crash(home, orders(ran, round_number), dice.uniform(0.0, 0.25))
        assert keys
        reports = recovered(home, keys)
        for key in keys:
            assert len({(end.how, end.never_started) for end in reports.ends(*key)}) == 1
            ends[key] = reports.ended(*key)
    counts = Counter(tuple(line.split()[:3]) for line in lines(ran))
    assert all(count == 1 for count in counts.values()), counts
    for (job_id, attempt), end in ends.items():
        began = sum((job_id, str(attempt), str(task)) in counts for task in range(TASKS))
        if end.never_started:
            assert began == 0, end
        if end.how == "succeeded":
            assert began == TASKS, end
    assert not [line for line in lines(ran) if is_alive(int(line.split()[3]))]
    # Whoever ran belongs to an attempt that the store knew.
    assert {(job_id, int(attempt)) for job_id, attempt, _ in counts} <= ends.keys()


def test_recover_twice_gives_the_same_result(home: Path, tmp_path: Path) -> None:
    keys = crash(home, orders(tmp_path / "ran", 0), 0.05)
    first, second = recovered(home, keys), recovered(home, keys)
    for key in keys:
        assert first.ended(*key) == second.ended(*key)


def test_supervisors_are_killed(bench: Bench, home: Path) -> None:
    """At random instants of their lives. Their tasks go with them, and so does whatever hides."""
    dice = random.Random(7)
    ran = bench.folder / "ran"
    hides = f"(setsid sh -c '{COUNT_ME}{ran}; {FOREVER}' &)"
    for number in range(20):
        bench.launch(f"job{number}", f"{COUNT_ME}{ran}; {hides}; {FOREVER}", f"{COUNT_ME}{ran}; {FOREVER}")
        time.sleep(dice.uniform(0.0, 0.12))
        if os.path.exists(run_folder(home, f"job{number}").claim):
            os.kill(supervisor_pid(home, f"job{number}"), signal.SIGKILL)
        else:
            bench.engine.stop(f"job{number}", 0, "too slow to be killed", 0.0)
    for number in range(20):
        end = bench.reports.ended(f"job{number}")
        assert end.how in ("lost", "stopped")
        began = [line for line in lines(ran) if line.startswith(f"job{number} ")]
        assert not (end.never_started and began)
        assert not [line for line in began if is_alive(int(line.split()[3]))]


def test_service_and_supervisor_are_killed(home: Path, tmp_path: Path) -> None:
    """No process saw the end; the next service finds the orphans."""
    ran = tmp_path / "ran"
    hides = f"(setsid sh -c '{COUNT_ME}{ran}; {FOREVER}' &) ; {COUNT_ME}{ran}; {FOREVER}"
    service = start_service(home)
    assert service.stdin is not None
    assert service.stdout is not None
    service.stdin.write(json.dumps({"job": "job", "attempt": 0, "commands": [hides, FOREVER]}).encode() + b"\n")
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


def test_a_stop_outlives_the_service(home: Path) -> None:
    """A stop is requested, then service and supervisor die: the gang is stopped all the same."""
    reports = Reports()
    engine = LocalEngine(home, reports)
    engine.launch(launch("job", f"trap '' TERM; {FOREVER}"))
    reports.started("job")
    engine.stop("job", 0, "preempted", 3600.0)
    eventually(lambda: b"preempted" in Path(run_folder(home, "job").stop).read_bytes())
    engine.close()
    os.kill(supervisor_pid(home, "job"), signal.SIGKILL)
    again = Reports()
    engine = LocalEngine(home, again)
    engine.recover([("job", 0)])
    end = again.ended("job")
    engine.close()
    assert (end.how, end.cause) == ("stopped", "preempted")
