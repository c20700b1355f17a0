"""Tests of finding the job of each process, with a /proc of plain files and with the real one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.agent import job_processes as module
from gpusquad.agent.job_processes import Processes, total_cpu_ratio
from gpusquad.agent.wire import WatchedRun

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class FakeProc:
    def __init__(self, folder: Path):
        self.folder = folder

    def put(self, pid, parent=1, name="python", cpu_ticks=0, start=None, pages=10, **environment):
        folder = self.folder / str(pid)
        folder.mkdir(exist_ok=True)
        fields = [
            "S",
            parent,
            *[0] * 9,
            cpu_ticks,
            0,
            *[0] * 6,
            pid * 7 if start is None else start,
            0,
            pages,
            *[0] * 20,
        ]
        (folder / "stat").write_text(f"{pid} ({name}) {' '.join(map(str, fields))}\n")
        lines = "".join(f"{key}={value}\0" for key, value in {"PATH": "/bin", **environment}.items())
        (folder / "environ").write_text(lines)

    def remove(self, pid):
        for path in (self.folder / str(pid)).iterdir():
            path.unlink()
        (self.folder / str(pid)).rmdir()


@pytest.fixture
def proc(tmp_path):
    return FakeProc(tmp_path)


def run(job="J1", attempt=0, pids=(100,), cards=("SIM-0",)):
    return WatchedRun(job, attempt, "/nowhere", tuple(cards), tuple(pids))


def pids(found):
    return sorted(process.pid for process in found)


def test_owner_comes_from_the_environment(proc):
    proc.put(55, GPUSQUAD_JOB="J1", GPUSQUAD_ATTEMPT="2", GPUSQUAD_CARDS="SIM-3,SIM-4")
    processes = Processes(proc.folder)
    (process,) = processes.look([run(attempt=2, pids=())])
    assert (process.pid, process.job, process.attempt, process.cards) == (55, "J1", 2, ("SIM-3", "SIM-4"))
    assert processes.owner(55) == ("J1", 2)


def test_owner_comes_from_ancestors_without_a_mark(proc):
    proc.put(100, name="keeper")
    proc.put(101, parent=100)
    proc.put(102, parent=101, name="a (b) c")
    proc.put(200)
    processes = Processes(proc.folder)
    found = processes.look([run(pids=(100,))])
    assert pids(found) == [100, 101, 102]
    assert {process.cards for process in found} == {("SIM-0",)}
    assert (processes.owner(102), processes.name(102)) == (("J1", 0), "a (b) c")
    assert processes.owner(200) is None


def test_environment_takes_precedence_over_ancestors(proc):
    proc.put(100)
    proc.put(101, parent=100, GPUSQUAD_JOB="J2", GPUSQUAD_ATTEMPT="0")
    assert pids(Processes(proc.folder).look([run(pids=(100,))])) == [100]


def test_orphan_of_an_ended_run_keeps_its_owner(proc):
    proc.put(55, GPUSQUAD_JOB="OLD", GPUSQUAD_ATTEMPT="0")
    processes = Processes(proc.folder)
    assert processes.look([]) == []
    assert processes.owner(55) == ("OLD", 0)
    assert processes.owner(56) is None


@pytest.mark.parametrize(
    ("job", "attempt"), [("", "0"), ("a/b", "0"), ("x" * 65, "0"), ("J1", "-1"), ("J1", ""), ("J1", "٣")]
)
def test_invalid_marks_are_ignored(proc, job, attempt):
    proc.put(55, GPUSQUAD_JOB=job, GPUSQUAD_ATTEMPT=attempt)
    assert Processes(proc.folder).owner(55) is None


def test_mark_set_by_exec_is_found_later(proc):
    processes = Processes(proc.folder)
    proc.put(55)
    assert processes.look([run(pids=())]) == []
    proc.put(55, GPUSQUAD_JOB="J1", GPUSQUAD_ATTEMPT="0")
    assert pids(processes.look([run(pids=())])) == [55]


def test_environment_is_read_a_limited_number_of_times(proc, monkeypatch):
    proc.put(55)
    processes = Processes(proc.folder)
    reads = []
    original = module._read_mark
    monkeypatch.setattr(module, "_read_mark", lambda data: reads.append(1) or original(data))
    for _ in range(10):
        processes.look([run(pids=())])
        processes.owner(55)
    assert len(reads) == 3


def test_reused_pid_is_another_process(proc):
    proc.put(55, start=10, GPUSQUAD_JOB="J1", GPUSQUAD_ATTEMPT="0")
    processes = Processes(proc.folder)
    processes.look([run(pids=())])
    proc.put(55, start=20)
    assert processes.look([run(pids=())]) == []


def test_cpu_ratio_covers_the_time_between_two_looks(proc):
    now_s = 50.0
    processes = Processes(proc.folder, lambda: now_s)
    proc.put(100, cpu_ticks=1000)
    (first,) = processes.look([run()])
    assert (first.cpu_ratio, first.rss_bytes) == (None, 10 * PAGE)
    now_s += 2.0
    proc.put(100, cpu_ticks=1000 + 3 * TICKS, pages=20)
    proc.put(101, parent=100, cpu_ticks=99)
    found = processes.look([run()])
    assert [process.cpu_ratio for process in found if process.pid == 100] == [1.5]
    assert total_cpu_ratio(found) == 1.5
    assert sum(process.rss_bytes for process in found) == 30 * PAGE


def test_vanishing_processes_are_ignored(proc):
    proc.put(100)
    (proc.folder / "101").mkdir()
    (proc.folder / "102").mkdir()
    (proc.folder / "102" / "stat").write_text("102 (x) S")
    processes = Processes(proc.folder)
    assert pids(processes.look([run()])) == [100]
    proc.remove(100)
    assert processes.look([run()]) == []


def test_cycle_of_parents_is_detected(proc):
    proc.put(100, parent=101)
    proc.put(101, parent=100)
    assert Processes(proc.folder).owner(100) is None


@given(st.binary(max_size=200))
def test_arbitrary_stat_and_environment_are_handled(data):
    module._parse_stat(5, data)
    module._parse_stat(5, b"5 (x) " + data)
    module._read_mark(data)
    module._read_mark(b"GPUSQUAD_JOB=" + data)


def test_child_of_a_real_process_is_found():
    script = "import subprocess, sys; subprocess.run(['cat'])"
    environment = {"PATH": os.environ["PATH"]}
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, env=environment, text=True) as parent:
        processes = Processes()
        found = []
        # A child has its parent's name until it calls exec.
        while "cat" not in {process.name for process in found} and parent.poll() is None:
            found = processes.look([run(pids=(parent.pid,))])
        assert {process.name for process in found} >= {"cat"}
        assert all(process.rss_bytes > 0 for process in found if process.name != "cat")
        assert processes.owner(parent.pid) == ("J1", 0)
        assert processes.owner(os.getpid()) is None
