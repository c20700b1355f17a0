"""What the processes of a quiet run wait for, from /proc.

A run without output, progress and work may be idle on purpose (a notebook, a service, a program that sleeps), wait for
somebody else (the network, a disk), or be stuck. The kernel knows: it names the function in which a thread waits. Each
process is judged by its main thread. A process that waits for its children is judged by them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpusquad.agent.wait_times import time_left_s
from gpusquad.model.waits import WAIT_KINDS, WaitKind

FOR_EVER_S = 24 * 3600.0
"""Nobody sleeps for that long on purpose while holding a GPU."""
_LISTEN, _ESTABLISHED = "0A", "01"
_FUNCTIONS: tuple[tuple[str, str], ...] = (
    ("hrtimer_nanosleep", "sleeping"), ("do_nanosleep", "sleeping"), ("common_nsleep", "sleeping"), ("futex", "lock"),
    ("do_wait", "child"), ("pipe", "pipe"), ("unix_stream", "pipe"), ("unix_wait", "pipe"), ("fifo", "pipe"),
    ("wait_for_partner", "pipe"), ("flock", "pipe"), ("posix_lock", "pipe"), ("do_msgrcv", "pipe"),
    ("do_semtimedop", "pipe"), ("do_poll", "poll"), ("poll_schedule", "poll"), ("do_select", "poll"),
    ("do_sys_poll", "poll"), ("ep_poll", "poll"), ("do_epoll", "poll"), ("eventfd", "poll"), ("sk_wait", "socket"),
    ("wait_woken", "socket"), ("inet_csk_accept", "socket"), ("skb_wait", "socket"), ("skb_recv", "socket"),
    ("n_tty_read", "terminal"), ("tty_read", "terminal"), ("do_sigtimedwait", "signal"), ("pause", "signal"),
    ("sigsuspend", "signal"), ("request_wait_answer", "disk"), ("nfs", "disk"), ("rpc_wait", "disk"), ("io_", "disk"),
    ("folio_wait", "disk"),
)  # fmt: skip
"""Parts of the names of kernel functions. They have differed between versions by their ends."""
_FOR_OTHERS = ("lock", "pipe", "poll", "socket")
_HELPERS = frozenset({"wandb-core", "wandb-service", "gpu_stats", "tensorboard"})
"""Programs that wait beside the work, whatever that does."""
_OPAQUE = frozenset({"docker", "podman", "nerdctl", "ctr", "crictl", "java"})
"""Their main thread waits as long as they run: the work is done by containers elsewhere, or by other threads."""
_MAX_THREADS = 512
_POLLS_S = 60.0
"""A wait for a worker that ends by itself so soon is one of many in a row."""


@dataclass(frozen=True, slots=True)
class WaitReading:
    """What a run waits for."""

    kind: WaitKind = "unknown"
    detail: str = ""


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


@dataclass(slots=True)
class _Sockets:
    """TCP sockets of the run, by inode."""

    states: dict[str, str] = field(default_factory=dict)
    local: dict[str, str] = field(default_factory=dict)
    remote: dict[str, str] = field(default_factory=dict)


class WaitReader:
    """Reads what runs wait for."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def stopped(self, pids: Iterable[int]) -> str:
        """A program of a task that was stopped by a signal. Empty: none. Its helpers may be paused on purpose."""
        processes = self._processes(pids)
        if not any(process.state == "T" for process in processes.values()):
            return ""
        found = [leader for root in _roots(processes) for leader in _leaders(root, processes) if leader.state == "T"]
        return f"{found[0].name} (pid {found[0].pid})" if found else ""

    def disk_bytes(self, pids: Iterable[int]) -> int | None:
        """Read from and written to disks by these processes so far. None: it may not be read."""
        found = [count for pid in pids if (count := self._disk_bytes(pid)) is not None]
        return sum(found) if found else None

    def read(self, pids: Iterable[int], *, is_gang: bool) -> WaitReading:
        """Of all processes of a run. In a gang the tasks listen for each other, so that says nothing."""
        processes = self._processes(pids)
        roots = _roots(processes)
        is_gang = is_gang or len(roots) > 1
        leaders = [leader for root in roots for leader in _without_readers(_leaders(root, processes))]
        readings = [self._judge(leader, processes, is_gang=is_gang) for leader in leaders]
        return min(readings, key=lambda reading: WAIT_KINDS.index(reading.kind), default=WaitReading())

    def _judge(self, leader: _Process, processes: Mapping[int, _Process], *, is_gang: bool) -> WaitReading:
        who = f"{leader.name} (pid {leader.pid})"
        if leader.state == "T":
            return WaitReading("stopped", f"{who} was stopped by a signal")
        workers = [one for one in processes.values() if one.name not in _HELPERS]
        if leader.name in _OPAQUE:
            return WaitReading("unknown", f"{who} does its work elsewhere")
        if any(one.state == "D" or one.waits == "disk" for one in workers):
            return WaitReading("disk", f"{who} waits for a disk or file server")
        if any(one.waits == "terminal" or self._has_terminal(one.pid) for one in processes.values()):
            return WaitReading("terminal", f"{who} is at a terminal")
        listens, talks = self._network(workers, processes.keys())
        if listens and not is_gang:
            return WaitReading("service", f"{who} listens for requests")
        if talks:
            return WaitReading("network", f"{who} has a connection to another machine")
        if leader.waits == "lock" and self._thread_sleeps(leader.pid):
            return WaitReading("sleeping", f"a thread of {who} sleeps")
        mine = [one for one in workers if one.parent == leader.pid and one.program == leader.program]
        if leader.waits in _FOR_OTHERS and any(self._naps(one) for one in mine):
            return WaitReading("sleeping", f"a worker of {who} sleeps")
        return self._judge_wait(leader, who, has_workers=bool(mine))

    def _judge_wait(self, leader: _Process, who: str, *, has_workers: bool) -> WaitReading:
        if leader.waits in ("child", "signal"):
            return WaitReading("sleeping", f"{who} waits for a child process or a signal")
        if leader.waits not in ("sleeping", *_FOR_OTHERS):
            return WaitReading("running" if leader.state == "R" else "unknown", "")
        left_s = time_left_s(self._proc / str(leader.pid))
        if left_s is not None and FOR_EVER_S < left_s < math.inf:
            return WaitReading("stuck", f"{who} sleeps for {left_s / 86400:.0f} days")
        if leader.waits == "sleeping":
            return WaitReading("sleeping", f"{who} sleeps")
        if has_workers and (left_s is None or left_s <= _POLLS_S):
            return WaitReading("stuck", f"{who} waits for its workers")
        if leader.waits == "pipe" or left_s == math.inf:
            whom = "a lock or another of its threads" if leader.waits == "lock" else "another process"
            return WaitReading("stuck", f"{who} waits for {whom}")
        return WaitReading("unknown", "") if left_s is None else WaitReading("sleeping", f"{who} sleeps")

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
        return _Process(pid, name, state, parent, program, waits)

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
        try:
            threads = os.listdir(self._proc / str(pid) / "task")[:_MAX_THREADS]
        except OSError:
            return False
        return any("nanosleep" in self._text(pid, f"task/{thread}/wchan") for thread in threads)

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

    # -- network -----------------------------------------------------------------------------------------------------

    def _network(self, family: Sequence[_Process], pids: Iterable[int]) -> tuple[bool, bool]:
        """Whether these processes listen, and whether they are connected to a process that is not of the run."""
        mine = {process.pid: self._socket_inodes(process.pid) for process in family}
        if not any(mine.values()):
            return False, False
        sockets = self._tcp(family[0].pid)
        of_run = {inode for pid in pids for inode in self._socket_inodes(pid)}
        ends = {(sockets.local[inode], sockets.remote[inode]) for inode in of_run & sockets.states.keys()}
        seen = {inode for inodes in mine.values() for inode in inodes} & sockets.states.keys()
        listens = any(sockets.states[inode] == _LISTEN for inode in seen)
        talks = any(
            sockets.states[inode] == _ESTABLISHED and (sockets.remote[inode], sockets.local[inode]) not in ends
            for inode in seen
        )
        return listens, talks

    def _socket_inodes(self, pid: int) -> set[str]:
        folder = self._proc / str(pid) / "fd"
        found: set[str] = set()
        try:
            names = os.listdir(folder)
        except OSError:
            return found
        for name in names[:4096]:
            try:
                target = os.readlink(folder / name)
            except OSError:
                continue
            if target.startswith("socket:["):
                found.add(target[8:-1])
        return found

    def _tcp(self, pid: int) -> _Sockets:
        """In the network namespace of the process."""
        sockets = _Sockets()
        for table in ("tcp", "tcp6"):
            try:
                with open(self._proc / str(pid) / "net" / table, encoding="ascii", errors="replace") as file:
                    lines = file.readlines()[1:]
            except OSError:
                continue
            for line in lines:
                fields = line.split()
                if len(fields) > 9:
                    inode = fields[9]
                    sockets.states[inode] = fields[3]
                    sockets.local[inode], sockets.remote[inode] = _end(fields[1]), _end(fields[2])
        return sockets


def _roots(processes: Mapping[int, _Process]) -> list[_Process]:
    return [process for process in processes.values() if process.parent not in processes]


def _leaders(root: _Process, processes: Mapping[int, _Process]) -> list[_Process]:
    """The process that does the work of a task. One that waits for other programs, as a shell does, is judged by
    them. Workers of the same program belong to it."""
    found, ahead, seen = [], [root], set[int]()
    while ahead:
        process = ahead.pop()
        if process.pid in seen:
            continue
        seen.add(process.pid)
        children = [one for one in processes.values() if one.parent == process.pid and one.name not in _HELPERS]
        others = [one for one in children if one.program != process.program]
        if process.waits == "child" and children:
            ahead += children
        elif process.waits in ("pipe", "poll") and others:
            ahead += others
        else:
            found.append(process)
    return found


def _without_readers(leaders: list[_Process]) -> list[_Process]:
    """The rest of a pipeline only waits for its first program."""
    return [leader for leader in leaders if leader.waits != "pipe"] or leaders


def _end(address: str) -> str:
    """An end of a connection. The same IPv4 address is written differently in the table of IPv6."""
    host, _, port = address.partition(":")
    return f"{host[-8:]}:{port}" if host[:24] == "0000000000000000FFFF0000" else f"{host}:{port}"
