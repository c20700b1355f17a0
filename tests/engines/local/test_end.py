"""Tests of how gangs end: first failure, stop with grace, no process left."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.engines.contract import FOREVER
from tests.engines.harness import Bench, lines, saver
from tests.engines.local.helpers import is_alive, read_status, supervisor_pid


def test_signal_of_a_killed_task_is_reported(bench: Bench) -> None:
    bench.launch("job", FOREVER, "kill -SEGV $$")
    end = bench.reports.ended("job")
    assert end.how == "failed"
    assert end.first is not None
    assert (end.first.task, end.first.exit_code, end.first.signal) == (1, None, signal.SIGSEGV)
    assert end.cause == "task 1 (worker 1) was killed by SIGSEGV"


def test_first_failure_is_reported(bench: Bench) -> None:
    """The other task fails too, as a consequence."""
    pipe = bench.pipe()
    os.mkfifo(bench.folder / "gate")
    bench.launch("job", saver(pipe, exit_code=9), f"read line < {bench.folder}/gate; exit 4")
    pipe.next()
    (bench.folder / "gate").write_text("fail\n")
    end = bench.reports.ended("job")
    assert end.first is not None
    assert (end.first.task, end.first.exit_code) == (1, 4)


def test_other_tasks_get_their_grace_when_one_fails(bench: Bench) -> None:
    pipe = bench.pipe()
    os.mkfifo(bench.folder / "gate")
    bench.launch("job", saver(pipe), f"read line < {bench.folder}/gate; exit 1", grace_s=3600.0)
    assert pipe.next() == "ready"
    (bench.folder / "gate").write_text("fail\n")
    assert pipe.next() == "saved"
    assert bench.reports.ended("job").how == "failed"


def test_task_that_ignores_sigterm_is_killed_after_its_grace(bench: Bench) -> None:
    pipe = bench.pipe()
    bench.launch("job", f"trap '' TERM; echo ready > {pipe.path}; {FOREVER}")
    pipe.next()
    pid = bench.reports.started("job").pids[0]
    bench.engine.stop("job", 0, "enough", 0.2)
    assert bench.reports.ended("job").how == "stopped"
    assert not is_alive(pid)


def test_task_is_killed_at_once_without_grace(bench: Bench) -> None:
    pipe = bench.pipe()
    bench.launch("job", f"trap '' TERM; echo ready > {pipe.path}; {FOREVER}")
    pipe.next()
    bench.engine.stop("job", 0, "now", 0.0)
    assert bench.reports.ended("job").how == "stopped"


def test_second_stop_shortens_the_grace(bench: Bench) -> None:
    pipe = bench.pipe()
    ignores_term = f"trap 'echo told > {pipe.path}' TERM; sleep 600 & echo ready > {pipe.path}; wait; sleep 600 & wait"
    bench.launch("job", ignores_term)
    assert pipe.next() == "ready"
    bench.engine.stop("job", 0, "please", 3600.0)
    assert pipe.next() == "told"
    bench.engine.stop("job", 0, "now", 0.0)
    end = bench.reports.ended("job")
    assert (end.how, end.cause) == ("stopped", "please")


def test_stopped_process_is_continued_to_receive_the_signal(bench: Bench) -> None:
    pipe = bench.pipe()
    bench.launch(
        "job", f"trap 'echo told > {pipe.path}; exit' TERM; echo ready > {pipe.path}; kill -STOP $$; {FOREVER}"
    )
    pipe.next()
    bench.engine.stop("job", 0, "wake up", 3600.0)
    assert pipe.next() == "told"
    assert bench.reports.ended("job").how == "stopped"


def test_child_of_a_shell_gets_the_grace_too(bench: Bench) -> None:
    """The shell exits on SIGTERM at once; its child is still saving."""
    pipe = bench.pipe()
    bench.launch("job", f"{saver(pipe)}; true")
    assert pipe.next() == "ready"
    bench.engine.stop("job", 0, "preempted", 3600.0)
    assert pipe.next() == "saved"
    assert bench.reports.ended("job").how == "stopped"


def test_exit_with_0_after_a_stop_is_reported_as_stopped(bench: Bench) -> None:
    pipe = bench.pipe()
    bench.launch("job", saver(pipe, exit_code=0))
    pipe.next()
    bench.engine.stop("job", 0, "preempted", 3600.0)
    assert bench.reports.ended("job").how == "stopped"


@pytest.mark.parametrize("last", ["exit 0", "exit 5", FOREVER])
def test_descendants_in_other_sessions_are_killed(bench: Bench, last: str) -> None:
    """With its own session and process group and without a parent, a process still belongs to the gang."""
    pipe = bench.pipe()
    hidden = f"setsid sh -c 'trap \"\" TERM HUP; echo $$ > {pipe.path}; {FOREVER}' > /dev/null 2>&1 < /dev/null &"
    os.mkfifo(bench.folder / "gate")
    bench.launch("job", f"({hidden}) ; ({hidden}); read line < {bench.folder}/gate; {last}")
    pids = [int(pipe.next()), int(pipe.next())]
    assert all(is_alive(pid) for pid in pids)
    (bench.folder / "gate").write_text("go\n")
    if last == FOREVER:
        bench.engine.stop("job", 0, "enough", 0.1)
    bench.reports.ended("job")
    assert not any(is_alive(pid) for pid in pids)


def test_processes_that_fork_repeatedly_are_killed(bench: Bench) -> None:
    """Processes that fork and exit repeatedly."""
    pipe = bench.pipe()
    chain = bench.folder / "chain.py"
    chain.write_text(
        "import os, sys, time\n"
        "while True:\n"
        "    if os.fork():\n"
        "        time.sleep(0.005)\n"
        "        os._exit(0)\n"
        "    os.setsid()\n"
    )
    bench.launch("job", f"{sys.executable} {chain} & {sys.executable} {chain} & echo ready > {pipe.path}; {FOREVER}")
    pipe.next()
    bench.engine.stop("job", 0, "enough", 0.0)
    assert bench.reports.ended("job").how == "stopped"
    assert not [pid for pid in os.listdir("/proc") if pid.isdecimal() and _is_running(int(pid), str(chain))]


def _is_running(pid: int, program: str) -> bool:
    try:
        return program.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_out_of_memory_is_reported(bench: Bench) -> None:
    allocate = "x = bytearray(300 * 2**20); print(len(x))"
    bench.launch("job", FOREVER, [sys.executable, "-c", allocate], memory_bytes=64 * 2**20)
    note = bench.reports.started("job").note
    if "memory limit" in note:
        pytest.skip(f"no memory limits here: {note}")
    end = bench.reports.ended("job")
    assert end.how == "failed"
    assert end.first is not None
    assert (end.first.task, end.first.signal, end.first.out_of_memory) == (1, signal.SIGKILL, True)
    assert "ran out of memory (limit 64 MiB)" in end.cause


def test_limits_are_set_and_their_cgroups_removed(bench: Bench, home: Path) -> None:
    bench.launch("job", FOREVER, memory_bytes=64 * 2**20, cpu_milli=1500)
    note = bench.reports.started("job").note
    if note:
        pytest.skip(f"no limits here: {note}")
    groups = read_status(home, "job")["groups"]
    folders = [Path(base) / f"{groups['prefix']}0" for base in groups["bases"]]
    texts = [file.read_text() for folder in folders for file in folder.iterdir() if file.name in _LIMIT_FILES]
    assert {text.strip() for text in texts} >= {str(64 * 2**20)}
    assert any(text.split()[0] == "150000" for text in texts)
    bench.engine.stop("job", 0, "enough", 0.0)
    bench.reports.ended("job")
    assert not any(folder.exists() for folder in folders)


_LIMIT_FILES = ("memory.limit_in_bytes", "memory.max", "cpu.cfs_quota_us", "cpu.max")


def test_supervisor_ends_its_gang_when_signalled_from_outside(bench: Bench, home: Path) -> None:
    """For example at machine shutdown: neither a failure of the gang nor a requested stop."""
    bench.launch("job", FOREVER)
    bench.reports.started("job")
    os.kill(supervisor_pid(home, "job"), signal.SIGTERM)
    end = bench.reports.ended("job")
    assert (end.how, end.first) == ("lost", None)


def test_standard_input_is_empty_and_signals_are_default(bench: Bench, home: Path) -> None:
    seen = bench.folder / "seen"
    bench.launch("job", f"cat; grep -E 'Sig(Blk|Ign)' /proc/self/status > {seen}")
    assert bench.reports.ended("job").how == "succeeded"
    # Two signals are reserved by the C library.
    assert all(int(line.split()[1], 16) & ~0x180000000 == 0 for line in lines(seen))


def test_tasks_inherit_no_file_descriptors(bench: Bench) -> None:
    seen = bench.folder / "seen"
    bench.launch("job", f"ls /proc/self/fd > {seen}")
    assert bench.reports.ended("job").how == "succeeded"
    assert {int(handle) for handle in lines(seen)} <= {0, 1, 2, 3}  # 3 is opened by ls itself


def test_tasks_inherit_the_umask_of_the_service(bench: Bench) -> None:
    seen = bench.folder / "seen"
    before = os.umask(0o027)
    try:
        bench.launch("job", f"umask > {seen}")
        bench.reports.ended("job")
    finally:
        os.umask(before)
    assert int(lines(seen)[0], 8) == 0o027
