"""Tests of starting a gang: all tasks start, or none."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpusquad.core.ports import AttemptStarted
from gpusquad.engines.local.engine import LocalEngine
from tests.engines.contract import FOREVER
from tests.engines.harness import TIMEOUT_S, Bench, Reports, launch, lines
from tests.engines.local.helpers import RECORD_RUN, is_alive, read_status, supervisor_pid


def script(path: Path, text: str, mode: int = 0o755) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def cannot_start(bench: Bench, command: list[str], **changes) -> str:
    """Launch the command beside a task that can start, check that neither ran and return the cause."""
    ran = bench.folder / "ran"
    bench.launch("job", f"{RECORD_RUN}{ran}", command, **changes)
    end = bench.reports.ended("job")
    assert (end.how, end.never_started) == ("failed", True)
    assert end.first is not None
    assert (end.first.exit_code, end.first.signal) == (None, None)
    assert lines(ran) == []
    assert not any(isinstance(report, AttemptStarted) for report in bench.reports.all)
    return end.cause


def test_missing_command_is_reported(bench: Bench) -> None:
    assert cannot_start(bench, ["nonesuch"]) == "task 1 (worker 1) cannot start: command not found: nonesuch"


def test_command_without_execute_permission_is_reported(bench: Bench) -> None:
    path = script(bench.folder / "plain", "#!/bin/sh\n", mode=0o644)
    assert "not executable" in cannot_start(bench, [path])


def test_missing_interpreter_is_reported(bench: Bench) -> None:
    path = script(bench.folder / "odd", "#!/no/such/interpreter -x\n")
    assert "wants the interpreter /no/such/interpreter" in cannot_start(bench, [path])


def test_empty_command_is_reported(bench: Bench) -> None:
    assert "empty" in cannot_start(bench, [])


def test_zero_byte_in_an_argument_is_reported(bench: Bench) -> None:
    assert "zero byte" in cannot_start(bench, ["echo", "a\0b"])


def test_long_argument_is_reported(bench: Bench) -> None:
    assert "longer than" in cannot_start(bench, ["echo", "x" * 200_000])


def test_long_list_of_arguments_is_reported(bench: Bench) -> None:
    assert "together" in cannot_start(bench, ["echo", *["x" * 100_000] * 100])


def test_missing_working_folder_is_reported(bench: Bench) -> None:
    bench.launch("job", "true", workdir="/no/such/folder")
    end = bench.reports.ended("job")
    assert (end.how, end.never_started) == ("failed", True)
    assert "/no/such/folder cannot be entered: No such file or directory" in end.cause


def test_invalid_variable_name_is_reported(bench: Bench) -> None:
    bench.launch("job", "true", env={"A=B": "c"})
    assert "'A=B' cannot be the name of a variable" in bench.reports.ended("job").cause


def test_failed_exec_ends_the_gang(bench: Bench) -> None:
    """The failure comes too late to keep the other task from running, but it ends the gang and is reported."""
    path = script(bench.folder / "neither", "not a program of any kind")
    bench.launch("job", FOREVER, [path])
    end = bench.reports.ended("job")
    assert (end.how, end.never_started) == ("failed", False)
    assert "Exec format error" in end.cause
    assert end.first is not None
    assert end.first.task == 1


def test_relative_command_is_found_in_the_working_folder(bench: Bench) -> None:
    script(bench.folder / "here.sh", "#!/bin/sh\nexit 0\n")
    bench.launch("job", ["./here.sh"], workdir=str(bench.folder))
    assert bench.reports.ended("job").how == "succeeded"


def test_gang_of_64_tasks_runs(bench: Bench) -> None:
    ran = bench.folder / "ran"
    bench.launch("job", *[f"{RECORD_RUN}{ran}"] * 64)
    assert len(set(bench.reports.started("job").pids)) == 64
    assert bench.reports.ended("job").how == "succeeded"
    assert sorted(int(line.split()[2]) for line in lines(ran)) == list(range(64))


def test_status_holds_a_gang_of_400_tasks(bench: Bench, home: Path) -> None:
    bench.launch("job", *["true"] * 400)
    assert bench.reports.ended("job").how == "succeeded"
    assert len(read_status(home, "job")["tasks"]) == 400


def test_order_may_be_larger_than_a_pipe_buffer(bench: Bench) -> None:
    env = {f"NAME{number}": "x" * 1000 for number in range(500)}
    bench.launch("job", 'test "$NAME499" = ' + "x" * 1000, env=env)
    assert bench.reports.ended("job").how == "succeeded"


@dataclass
class BlockedProgram:
    """A program file with a lease: opening it blocks until ``release`` and sets ``tried``."""

    path: str
    tried: threading.Event
    handle: int

    def release(self) -> None:
        if self.handle != -1:
            os.close(self.handle)
        self.handle = -1


@pytest.fixture
def blocked(tmp_path: Path) -> Iterator[BlockedProgram]:
    path = script(tmp_path / "held", f"#!/bin/sh\n{FOREVER}\n")
    tried = threading.Event()
    before = signal.signal(signal.SIGIO, lambda *_: tried.set())
    program = BlockedProgram(path, tried, os.open(path, os.O_RDWR))
    try:
        fcntl.fcntl(program.handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as error:
        pytest.skip(f"no leases here: {error}")
    yield program
    program.release()
    signal.signal(signal.SIGIO, before)


def test_stop_during_the_start_barrier_runs_no_task(bench: Bench, blocked: BlockedProgram) -> None:
    ran = bench.folder / "ran"
    bench.launch("job", f"{RECORD_RUN}{ran}", [blocked.path])
    assert blocked.tried.wait(TIMEOUT_S)
    bench.engine.stop("job", 0, "not any more", 10.0)
    end = bench.reports.ended("job")
    assert (end.how, end.cause, end.never_started) == ("stopped", "not any more", True)
    assert lines(ran) == []


def test_supervisor_killed_during_the_start_barrier_runs_no_task(
    bench: Bench, home: Path, blocked: BlockedProgram
) -> None:
    ran = bench.folder / "ran"
    bench.launch("job", f"{RECORD_RUN}{ran}", [blocked.path])
    assert blocked.tried.wait(TIMEOUT_S)
    os.kill(supervisor_pid(home, "job"), signal.SIGKILL)
    end = bench.reports.ended("job")
    assert (end.how, end.never_started) == ("lost", True)
    assert "killed by signal 9" in end.cause
    assert lines(ran) == []


def test_gang_adopted_during_the_start_barrier_is_reported_as_started(bench: Bench, blocked: BlockedProgram) -> None:
    """The pipe that reports the start closed with the old service; the start is still reported."""
    bench.launch("job", FOREVER, [blocked.path])
    assert blocked.tried.wait(TIMEOUT_S)
    reports = bench.restart()
    bench.engine.recover([("job", 0)])
    bench.launch("other", "true")
    reports.ended("other")
    assert not any(report.job_id == "job" for report in reports.all)
    blocked.release()
    assert len(reports.started("job").pids) == 2


def test_attempt_launched_by_two_services_starts_once(tmp_path: Path, home: Path) -> None:
    """Two services on one home are not supported; if it happens, the claim decides."""
    ran = tmp_path / "ran"
    reports = [Reports(), Reports()]
    engines = [LocalEngine(home, report) for report in reports]
    for number in range(10):
        for engine in engines:
            engine.launch(launch(f"job{number}", f"{RECORD_RUN}{ran}", f"{RECORD_RUN}{ran}"))
    for number in range(10):
        assert {report.ended(f"job{number}").how for report in reports} == {"succeeded"}
    for engine in engines:
        engine.close()
    assert len(lines(ran)) == 20


def test_ended_supervisor_is_reaped(bench: Bench, home: Path) -> None:
    bench.launch("job", "true")
    bench.reports.ended("job")
    assert not Path(f"/proc/{supervisor_pid(home, 'job')}").exists()


def test_supervisor_has_its_own_session_and_ignores_terminal_signals(bench: Bench, home: Path) -> None:
    bench.launch("job", FOREVER)
    pid = bench.reports.started("job").pids[0]
    supervisor = supervisor_pid(home, "job")
    assert os.getsid(supervisor) == supervisor
    assert os.getsid(pid) == pid
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
        os.kill(supervisor, number)
    bench.engine.stop("job", 0, "still listening", 10.0)
    assert bench.reports.ended("job").cause == "still listening"
    assert not is_alive(pid)
