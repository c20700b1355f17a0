"""What the processes of a quiet run wait for, from /proc.

A run without output, progress and work may be idle on purpose (a notebook, a service, a program that sleeps), wait for
somebody else (the network, a disk), or be stuck. The kernel knows: it names the function in which a thread waits. Each
process is judged by its main thread. A process that waits for its children is judged by them.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpusquad.agent.outside import LOCKS, MAX_THREADS, MESSAGES, OutsideReader, OutsideWait
from gpusquad.agent.ports import RunPorts
from gpusquad.agent.wait_times import time_left_s
from gpusquad.model.waits import WAIT_KINDS, WaitKind

FOR_EVER_S = 24 * 3600.0
"""Nobody sleeps for that long on purpose while holding a GPU."""
_FUNCTIONS: tuple[tuple[str, str], ...] = (
    ("hrtimer_nanosleep", "sleeping"), ("do_nanosleep", "sleeping"), ("common_nsleep", "sleeping"), ("futex", "lock"),
    ("do_wait", "child"), *((part, "message") for part in MESSAGES), ("pipe", "pipe"), ("unix_stream", "pipe"),
    ("unix_wait", "pipe"), ("flock", "pipe"), ("posix_lock", "pipe"), ("locks_lock", "pipe"),
    ("fcntl_setlk", "pipe"),
    ("do_poll", "poll"), ("poll_schedule", "poll"), ("do_select", "poll"),
    ("do_sys_poll", "poll"), ("ep_poll", "poll"), ("do_epoll", "poll"), ("eventfd", "poll"), ("sk_wait", "socket"),
    ("wait_woken", "socket"), ("inet_csk_accept", "socket"), ("skb_wait", "socket"), ("skb_recv", "socket"),
    ("n_tty_read", "terminal"), ("tty_read", "terminal"), ("do_sigtimedwait", "signal"), ("pause", "signal"),
    ("sigsuspend", "signal"), ("request_wait_answer", "disk"), ("nfs", "disk"), ("rpc_wait", "disk"), ("io_", "disk"),
    ("folio_wait", "disk"),
)  # fmt: skip
"""Parts of the names of kernel functions. They have differed between versions by their ends."""
_FOR_OTHERS = ("lock", "pipe", "poll", "socket")
_HELPERS = frozenset(
    {"wandb-core", "wandb-service", "gpu_stats", "tensorboard", "torch_shm_manag", "Xvfb", "Xorg", "dbus-daemon"}
)
"""Programs that wait beside the work, whatever that does."""
_OPAQUE = frozenset({"docker", "podman", "nerdctl", "ctr", "crictl", "java"})
"""Their main thread waits as long as they run: the work is done by containers elsewhere, or by other threads."""
_LAUNCHERS = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})
"""Programs that only look from time to time whether those that they have started still run."""
_LAUNCHER_WORDS = 4
"""Words of a command line that can name a launcher: an interpreter and its options come first."""
_POLLS_S = 60.0
"""A wait for a worker that ends by itself so soon is one of many in a row."""

_PAUSE_S = 0.01
"""Between two moments at which a run is looked at: shorter than a request to another machine."""
_PAUSE_TIMES = 50
"""The same, as a multiple of the time that a look takes."""


@dataclass(frozen=True, slots=True)
class WaitReading:
    """What a run waits for."""

    kind: WaitKind = "unknown"
    detail: str = ""
    besides: WaitReading | None = None
    """Of a service: what it waits for besides requests. A program that trains may serve its metrics."""
    is_visited: bool = False
    """Whether somebody outside of the run uses a port that it listens on."""


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    name: str
    state: str
    parent: int
    program: str
    """Its executable. Workers of a program share it; helpers such as metric uploaders do not."""
    waits: str
    """Function in which its main thread waits, as one of the words above. Empty: it runs, or that is unknown."""
    function: str = ""
    is_launcher: bool = False

    @property
    def waits_for_lock(self) -> bool:
        return any(part in self.function for part in LOCKS)


@dataclass(frozen=True, slots=True)
class _Run:
    """What is the same for all tasks of a run."""

    processes: Mapping[int, _Process]
    workers: Sequence[_Process]
    is_gang: bool
    lacks_peers: bool
    """Whether it is the only task of a gang that is here. The others have ended, or run on other machines."""
    ports: RunPorts
    serves: bool
    """Whether it waits for requests at a TCP port."""
    outside: OutsideWait | None
    resting: str
    """One of its processes that nothing but its end can follow. Empty: none."""


class WaitReader:
    """Reads what runs wait for."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._outside = OutsideReader(proc)

    def stopped(self, pids: Iterable[int]) -> str:
        """A program of a task that was stopped by a signal. Empty: none. Its helpers may be paused on purpose."""
        processes = self._processes(pids)
        if not any(process.state == "T" for process in processes.values()):
            return ""
        found = [
            leader for root in _roots(processes) for leader in _leaders(root, processes, ()) if leader.state == "T"
        ]
        return f"{found[0].name} (pid {found[0].pid})" if found else ""

    def disk_bytes(self, pids: Iterable[int]) -> int | None:
        """Read from and written to disks by these processes so far. None: it may not be read."""
        found = [count for pid in pids if (count := self._disk_bytes(pid)) is not None]
        return sum(found) if found else None

    def listens(self, pids: Sequence[int]) -> bool:
        """Whether one of these processes listens for connections."""
        return bool(pids) and RunPorts(self._proc, pids, dict.fromkeys(pids, 0)).listens

    def calls(self, pids: Iterable[int]) -> bool:
        """Whether one of these processes has opened a connection to somebody else, and still has it."""
        processes = self._processes(pids)
        workers = [pid for pid, process in processes.items() if process.name not in _HELPERS]
        return bool(workers) and RunPorts(self._proc, workers, _tasks(processes)).calls

    def calls_within(self, pids: Sequence[int], seconds: float) -> bool:
        """Whether it does at one of many moments in this time. Takes that long, and little of a CPU."""
        end_s = time.monotonic() + seconds
        while (started_s := time.monotonic()) < end_s:
            if self.calls(pids):
                return True
            time.sleep(max(_PAUSE_S, (time.monotonic() - started_s) * _PAUSE_TIMES))
        return False

    def read(self, pids: Iterable[int], *, is_gang: bool) -> WaitReading:
        """Of all processes of a run. In a gang the tasks listen for each other, so it serves only if a thread waits for
        requests at a port that is not for that."""
        processes = {pid: one for pid, one in self._processes(pids).items() if not self._has_ended(one)}
        if not processes:
            return WaitReading()
        resting = {pid for pid, process in processes.items() if self._rests(process)}
        roots = _roots(processes)
        roots = [root for root in roots if not _only_rests(root, processes, resting)] or roots
        workers = [one for one in processes.values() if one.name not in _HELPERS]
        worker_pids = [one.pid for one in workers]
        ports = RunPorts(self._proc, worker_pids, _tasks(processes))
        rests = next((f"{processes[pid].name} (pid {pid})" for pid in sorted(resting)), "")
        outside = self._outside.find(worker_pids, processes, ports.inodes)
        has_peers = is_gang or len(roots) > 1
        serves = self._outside.accepts(worker_pids, ports.for_requests) if has_peers else ports.listens
        run = _Run(processes, workers, has_peers, is_gang and len(roots) == 1, ports, serves, outside, rests)
        leaders = [_without_readers(_leaders(root, processes, resting)) for root in roots]
        tasks = [_together([self._judge(one, run) for one in of_task]) for of_task in leaders]
        return _together(tasks, is_gang=is_gang)

    def _judge(self, leader: _Process, run: _Run) -> WaitReading:
        who = f"{leader.name} (pid {leader.pid})"
        if leader.state == "T":
            return WaitReading("stopped", f"{who} was stopped by a signal")
        if leader.name in _OPAQUE:
            return WaitReading("unknown", f"{who} does its work elsewhere")
        if any(one.state == "D" or one.waits == "disk" for one in run.workers):
            return WaitReading("disk", f"{who} waits for a disk or file server")
        if any(one.waits == "terminal" or self._has_terminal(one.pid) for one in run.processes.values()):
            return WaitReading("terminal", f"{who} is at a terminal")
        besides = self._judge_besides_requests(leader, who, run)
        if run.serves:
            return WaitReading("service", f"{who} listens for requests", besides, run.ports.is_visited)
        return besides

    def _judge_besides_requests(self, leader: _Process, who: str, run: _Run) -> WaitReading:
        if run.ports.talks:
            return WaitReading("network", f"{who} has a connection to another machine")
        if run.outside is not None:
            serves = run.processes[run.outside.pid].program == leader.program and not run.is_gang
            kind: WaitKind = "service" if run.outside.listens and serves else "outside"
            return WaitReading(kind, f"{who} waits for {run.outside.what}")
        if leader.waits_for_lock and (holder := self._napping_holder(leader, run)):
            return WaitReading("sleeping", f"{who} waits for a lock of a file that {holder} holds, which sleeps")
        if leader.waits == "lock" and self._thread_sleeps(leader.pid):
            return WaitReading("sleeping", f"a thread of {who} sleeps")
        mine = [one for one in run.workers if one.parent == leader.pid and one.program == leader.program]
        if leader.waits in _FOR_OTHERS and any(self._naps(one) for one in mine):
            return WaitReading("sleeping", f"a worker of {who} sleeps")
        if run.lacks_peers and "csk_accept" in leader.function:
            what = "a connection, and no other task of its gang runs on this machine"
            return WaitReading("unknown", f"{who} waits for {what}")
        found = self._judge_wait(leader, who, has_workers=bool(mine))
        if found.kind != "stuck" or leader.waits not in ("pipe", "poll") or leader.waits_for_lock or not run.resting:
            return found
        return replace(found, detail=f"{found.detail}, while {run.resting} sleeps for ever")

    def _judge_wait(self, leader: _Process, who: str, *, has_workers: bool) -> WaitReading:
        if leader.waits in ("child", "signal"):
            return WaitReading("sleeping", f"{who} waits for a child process or a signal")
        if leader.waits == "message":
            return WaitReading("outside", f"{who} waits for another program")
        if leader.waits not in ("sleeping", *_FOR_OTHERS):
            return WaitReading("running" if leader.state == "R" else "unknown", "")
        left_s = time_left_s(self._proc / str(leader.pid))
        if left_s is not None and FOR_EVER_S < left_s < math.inf:
            return WaitReading("stuck", f"{who} sleeps for {left_s / 86400:.0f} days")
        if leader.waits == "sleeping":
            return WaitReading("sleeping", f"{who} sleeps")
        if has_workers and (left_s is None or left_s <= _POLLS_S):
            return WaitReading("stuck", f"{who} waits for its workers")
        if leader.waits_for_lock:
            return WaitReading("stuck", f"{who} waits for a lock of a file{self._held_by(leader.pid)}")
        if leader.waits == "pipe" or left_s == math.inf:
            whom = "a lock or another of its threads" if leader.waits == "lock" else "another process"
            return WaitReading("stuck", f"{who} waits for {whom}")
        return WaitReading("unknown", "") if left_s is None else WaitReading("sleeping", f"{who} sleeps")

    def _napping_holder(self, leader: _Process, run: _Run) -> str:
        """Who sleeps for a while with the lock that it waits for."""
        holder = run.processes.get(self._outside.lock_holder(leader.pid) or 0)
        naps = holder is not None and any(self._naps(one) for one in _leaders(holder, run.processes, ()))
        return f"{holder.name} (pid {holder.pid})" if holder is not None and naps else ""

    def _held_by(self, pid: int) -> str:
        holder = self._outside.lock_holder(pid)
        stat = None if holder is None else self._stat(holder)
        if stat is None:
            return ""
        return " that it holds itself" if holder == pid else f" that {stat[0]} (pid {holder}) of its own job holds"

    def _has_ended(self, process: _Process) -> bool:
        """Whether its parent has yet to take note of that, and nothing else. Its threads may outlive the main one."""
        return process.state in ("Z", "X") and len(self._threads(process.pid)) <= 1

    def _rests(self, process: _Process) -> bool:
        """Whether it sleeps without limit and nothing but its end can follow, such as ``sleep infinity``."""
        status = self._text(process.pid, "status").splitlines()
        if "SigCgt:\t0000000000000000" not in status or len(self._threads(process.pid)) > 1:
            return False
        if process.waits == "sleeping":
            left_s = time_left_s(self._proc / str(process.pid))
            return left_s is not None and left_s > FOR_EVER_S
        return "sys_pause" in process.function

    def _naps(self, process: _Process) -> bool:
        """Whether it sleeps for a while, and not for ever."""
        if process.waits != "sleeping":
            return False
        left_s = time_left_s(self._proc / str(process.pid))
        return left_s is None or left_s <= FOR_EVER_S

    # -- one process -------------------------------------------------------------------------------------------------

    def _processes(self, pids: Iterable[int]) -> dict[int, _Process]:
        return {process.pid: process for pid in pids if (process := self._process(pid)) is not None}

    def _process(self, pid: int) -> _Process | None:
        stat = self._stat(pid)
        if stat is None:
            return None
        name, state, parent = stat
        function = self._text(pid, "wchan")
        waits = next((word for part, word in _FUNCTIONS if part in function), "")
        try:
            program = os.readlink(self._proc / str(pid) / "exe")
        except OSError:
            program = ""
        words = self._text(pid, "cmdline").split("\0")[:_LAUNCHER_WORDS]
        is_launcher = any(os.path.basename(word) in _LAUNCHERS for word in words)
        return _Process(pid, name, state, parent, program, waits, function, is_launcher)

    def _disk_bytes(self, pid: int) -> int | None:
        lines = dict(line.split(": ", 1) for line in self._text(pid, "io").splitlines() if ": " in line)
        try:
            return int(lines["read_bytes"]) + int(lines["write_bytes"])
        except (KeyError, ValueError):
            return None

    def _stat(self, pid: int) -> tuple[str, str, int] | None:
        head, closing, tail = self._text(pid, "stat").rpartition(")")
        fields = tail.split()
        if not closing or len(fields) < 2:
            return None
        return head.partition("(")[2], fields[0], int(fields[1])

    def _thread_sleeps(self, pid: int) -> bool:
        """Whether another thread than the main one sleeps, and may look from time to time whether it can go on."""
        return any("nanosleep" in self._text(pid, f"task/{thread}/wchan") for thread in self._threads(pid))

    def _threads(self, pid: int) -> list[str]:
        try:
            return os.listdir(self._proc / str(pid) / "task")[:MAX_THREADS]
        except OSError:
            return []

    def _has_terminal(self, pid: int) -> bool:
        try:
            return os.readlink(self._proc / str(pid) / "fd" / "0").startswith(("/dev/pts/", "/dev/tty"))
        except OSError:
            return False

    def _text(self, pid: int, name: str) -> str:
        try:
            with open(self._proc / str(pid) / name, "rb") as file:
                return file.read(4096).decode("utf-8", "replace").strip()
        except OSError:
            return ""


def _together(readings: Sequence[WaitReading], *, is_gang: bool = False) -> WaitReading:
    """One that waits on purpose or for somebody else explains those that wait for it. In a gang the others may wait for
    a task that only sleeps for a while."""
    first = _first(readings, is_gang=is_gang)
    if first.kind != "service":
        return first
    besides = _first([reading.besides or reading for reading in readings], is_gang=is_gang)
    return replace(first, besides=besides)


def _first(readings: Sequence[WaitReading], *, is_gang: bool) -> WaitReading:
    first = min(readings, key=lambda reading: WAIT_KINDS.index(reading.kind), default=WaitReading())
    sleeping = next((reading for reading in readings if reading.kind == "sleeping"), first)
    return sleeping if is_gang and first.kind == "stuck" else first


def _roots(processes: Mapping[int, _Process]) -> list[_Process]:
    return [process for process in processes.values() if process.parent not in processes]


def _tasks(processes: Mapping[int, _Process]) -> dict[int, int]:
    """The first process of the task that each belongs to."""
    found: dict[int, int] = {}
    for pid in processes:
        way = [pid]
        while (parent := processes[way[-1]].parent) in processes and parent not in way:
            way.append(parent)
        found[pid] = way[-1]
    return found


def _only_rests(process: _Process, processes: Mapping[int, _Process], resting: Collection[int]) -> bool:
    """Whether all that it does is to rest, or to wait for children that do."""
    children = [one for one in processes.values() if one.parent == process.pid]
    if process.waits == "child":
        return bool(children) and all(_only_rests(child, processes, resting) for child in children)
    return process.pid in resting and not children


def _leaders(root: _Process, processes: Mapping[int, _Process], resting: Collection[int]) -> list[_Process]:
    """The process that does the work of a task. One that waits for other programs, as a shell does, is judged by
    them, unless it waits for a lock while these rest. Workers of the same program belong to it."""
    found, ahead, seen = [], [root], set[int]()
    while ahead:
        process = ahead.pop()
        if process.pid in seen:
            continue
        seen.add(process.pid)
        children = [one for one in processes.values() if one.parent == process.pid and one.name not in _HELPERS]
        others = [one for one in children if one.program != process.program]
        if children and (process.waits == "child" or process.is_launcher):
            ahead += children
        elif process.waits_for_lock and all(_only_rests(one, processes, resting) for one in others):
            found.append(process)
        elif process.waits in ("pipe", "poll") and others:
            ahead += others
        else:
            found.append(process)
    return found


def _without_readers(leaders: list[_Process]) -> list[_Process]:
    """The rest of a pipeline only waits for its first program."""
    return [leader for leader in leaders if leader.waits != "pipe"] or leaders
