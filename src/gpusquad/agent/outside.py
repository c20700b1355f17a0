"""Whether a run waits for somebody outside of it: a person, another job, a client.

Looks at the files that its threads wait for. The other end of a pipe or socket pair of the run is one of its processes,
which hangs as well. A named pipe, a listening socket, or a lock of another job may be served at any time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpusquad.agent.sockets import SocketEnds, read_peers, read_unix
from gpusquad.agent.wait_calls import WaitCall, awaited_files, read_call

MAX_THREADS = 512
_MAX_FILES = 4096
_NESTED = 2
_ACCESS = os.O_ACCMODE
_OUTSIDE_INODES = {
    "inotify": "changes of files", "fanotify": "changes of files", "[signalfd]": "a signal", "[timerfd]": "a timer",
    "[io_uring]": "input or output", "[userfaultfd]": "another process", "[perf_event]": "events",
}  # fmt: skip
MESSAGES = ("wait_for_partner", "fifo", "do_msg", "do_semtimedop", "wq_sleep")
LOCKS = ("locks_lock", "flock", "posix_lock", "fcntl_setlk")
"""Parts of the names of kernel functions: those wait for an open or a message, these for a lock."""
_OWN_DEVICES = ("/dev/nvidia", "/dev/infiniband/", "/dev/null", "/dev/zero", "/dev/dri/")
_OWN_SOCKETS = ("@cuda-uvmfd-", "@tmp/nccl-", "@/tmp/nccl-", "/pymp-", "torch-shm-dir", "-mps", "/mps")
"""Parts of the names of sockets that CUDA, NCCL, MPS and ``multiprocessing`` open for themselves."""
_SHARED_MEMORY = "/dev/shm/"
_OWN_MEMORY = ("sem.mp-", "sem.loky-", "psm_", "torch_", "nccl-")
"""Starts of the names that ``multiprocessing``, joblib, PyTorch and NCCL give to memory of their own."""
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "devtmpfs", "overlay", "zfs", "f2fs"})
"""File systems whose files can be looked at without waiting for a server."""


@dataclass(frozen=True, slots=True)
class OutsideWait:
    """For whom or what a run waits. ``listens``: it accepts connections."""

    what: str
    listens: bool = False
    pid: int = 0
    """The process that waits."""


@dataclass(slots=True)
class _Run:
    """The pipes and sockets of all processes of a run."""

    pids: frozenset[int]
    read_ends: set[str] = field(default_factory=set)
    write_ends: set[str] = field(default_factory=set)
    sockets: set[str] = field(default_factory=set)
    tcp: frozenset[str] = frozenset()
    peers: dict[str, str] = field(default_factory=dict)


class OutsideReader:
    """Reads ``/proc``. Where system calls are hidden, all files of a process count that it could wait for."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def find(self, waiting: Iterable[int], run: Iterable[int], tcp: Iterable[str]) -> OutsideWait | None:
        """What the ``waiting`` processes wait for outside of the run; a place where they accept connections first.
        ``tcp``: inodes of TCP sockets, which are judged elsewhere. None: all that they wait for is of the run."""
        ends = self._ends(run, tcp)
        found = [replace(one, pid=pid) for pid in waiting for one in self._of_process(pid, ends)]
        return max(found, key=lambda one: one.listens, default=None)

    def accepts(self, pids: Iterable[int], listening: Collection[str]) -> bool:
        """Whether a thread waits for a connection to one of these sockets. A program that forgot them does not."""
        return bool(listening) and any(self._accepts(pid, listening) for pid in pids)

    def _accepts(self, pid: int, listening: Collection[str]) -> bool:
        process = self._proc / str(pid)
        for thread in self._threads(pid):
            try:
                files = awaited_files(process, read_call(process / "task" / thread))
            except PermissionError:
                return any(target[8:-1] in listening for _, target in self._files(pid))
            except OSError:
                continue  # it has just ended
            if any(self._is_one_of(pid, file, listening) for file in files):
                return True
        return False

    def _is_one_of(self, pid: int, number: int, inodes: Collection[str], depth: int = 0) -> bool:
        """Whether this file is one of these sockets, or watches one."""
        try:
            target = os.readlink(self._proc / str(pid) / "fd" / str(number))
        except OSError:
            return False
        if target == "anon_inode:[eventpoll]" and depth < _NESTED:
            return any(self._is_one_of(pid, file, inodes, depth + 1) for file in self._watched(pid, number))
        return target.startswith("socket:[") and target[8:-1] in inodes

    def _ends(self, pids: Iterable[int], tcp: Iterable[str]) -> _Run:
        run = _Run(frozenset(pids), tcp=frozenset(tcp))
        for pid in run.pids:
            for number, target in self._files(pid):
                if target.startswith("socket:["):
                    run.sockets.add(target[8:-1])
                elif target.startswith("pipe:["):
                    access = self._access(pid, number)
                    if access != os.O_WRONLY:
                        run.read_ends.add(target)
                    if access != os.O_RDONLY:
                        run.write_ends.add(target)
        if run.sockets - run.tcp:
            run.peers = read_peers(self._proc, next(iter(run.pids)))
        return run

    # -- a process ---------------------------------------------------------------------------------------------------

    def _of_process(self, pid: int, run: _Run) -> list[OutsideWait]:
        sockets = read_unix(self._proc, pid)
        try:
            found = [self._of_thread(pid, thread, run, sockets) for thread in self._threads(pid)]
        except PermissionError:
            found = self._of_hidden(pid, run, sockets)
        return [one for one in found if one is not None]

    def _of_thread(self, pid: int, thread: str, run: _Run, sockets: SocketEnds) -> OutsideWait | None:
        process = self._proc / str(pid)
        try:
            call = read_call(process / "task" / thread)
            files = awaited_files(process, call)
        except PermissionError:
            raise
        except OSError:
            return None  # it has just ended
        if call.kind == "open":
            return OutsideWait("a named pipe")
        if call.kind == "message":
            return OutsideWait("another process")
        if call.kind == "signal":
            return OutsideWait("a signal") if thread != str(pid) else None
        if call.is_shared_futex:
            return self._of_shared_memory(pid, call)
        if call.kind == "file" and any(part in self._text(pid, f"task/{thread}/wchan") for part in LOCKS):
            return self._of_lock(pid, run)
        found = (self._of_file(pid, file, run, sockets) for file in files)
        return next((one for one in found if one is not None), None)

    def _of_hidden(self, pid: int, run: _Run, sockets: SocketEnds) -> list[OutsideWait | None]:
        """By the kernel functions and all files of a process whose system calls are hidden."""
        functions = [self._text(pid, f"task/{thread}/wchan") for thread in self._threads(pid)]
        found = [self._of_file(pid, number, run, sockets, hidden=True) for number, _ in self._files(pid)]
        if any(part in function for function in functions for part in LOCKS):
            found.append(self._of_lock(pid, run))
        if any(part in function for function in functions for part in MESSAGES):
            found.append(OutsideWait("another program"))
        return found

    def _of_shared_memory(self, pid: int, call: WaitCall) -> OutsideWait | None:
        """Another program can open memory that has a name."""
        for line in self._text(pid, "maps").splitlines():
            words = line.split(maxsplit=5)
            start, _, end = words[0].partition("-")
            if not int(start, 16) <= call.arguments[0] < int(end, 16):
                continue
            name = words[5] if len(words) > 5 and "s" in words[1] else ""
            if name.startswith(_SHARED_MEMORY):
                name = self._shared_name(pid, int(words[4]))
            own = not name.startswith("/") or name.endswith("(deleted)") or name == "/dev/zero"
            return None if own else OutsideWait(f"shared memory {name}")
        return None

    def _shared_name(self, pid: int, inode: int) -> str:
        """A semaphore is created under another name, which is what its creator shows for ever."""
        try:
            with os.scandir(f"{self._proc}/{pid}/root{_SHARED_MEMORY}") as entries:
                names = [entry.name for entry in entries if entry.inode() == inode]
        except OSError:
            return _SHARED_MEMORY
        return next((_SHARED_MEMORY + name for name in names if not name.startswith(_OWN_MEMORY)), "")

    # -- a file ------------------------------------------------------------------------------------------------------

    def _of_file(self, pid: int, number: int, run: _Run, sockets: SocketEnds, *, hidden: bool = False,
                 depth: int = 0) -> OutsideWait | None:  # fmt: skip
        """``hidden``: it is not known whether the process waits for this one."""
        try:
            target = os.readlink(self._proc / str(pid) / "fd" / str(number))
        except OSError:
            return None
        kind, _, inode = target.partition(":")
        if kind == "pipe":
            return self._of_pipe(pid, number, target, run, hidden=hidden)
        if kind == "socket":
            return _of_socket(inode[1:-1], run, sockets, hidden=hidden)
        if kind == "anon_inode":
            return self._of_inode(pid, number, inode, run, sockets, hidden=hidden, depth=depth)
        if target.startswith("/") and not target.startswith(_OWN_DEVICES) and self._is_local(pid, number):
            return self._of_path(pid, number, target, hidden=hidden)
        return None

    def _of_pipe(self, pid: int, number: int, target: str, run: _Run, *, hidden: bool) -> OutsideWait | None:
        access = self._access(pid, number)
        if access == os.O_RDWR or (hidden and access == os.O_WRONLY):
            return None
        if target in (run.read_ends if access == os.O_WRONLY else run.write_ends):
            return None
        return OutsideWait("its standard input" if number == 0 else "a pipe from another program")

    def _of_inode(self, pid: int, number: int, name: str, run: _Run, sockets: SocketEnds, *, hidden: bool,
                  depth: int) -> OutsideWait | None:  # fmt: skip
        if name == "[eventpoll]" and not hidden and depth < _NESTED:
            watched = self._watched(pid, number)
            found = (self._of_file(pid, file, run, sockets, depth=depth + 1) for file in watched)
            return next((one for one in found if one is not None), None)
        if name == "[pidfd]":
            other = self._field(pid, number, "Pid:")
            return None if hidden or int(other or 0) in run.pids else OutsideWait("another program")
        what = next((what for part, what in _OUTSIDE_INODES.items() if name.startswith(part)), None)
        if what is None or (hidden and name not in ("inotify", "[signalfd]")):
            return None
        return OutsideWait(what)

    def _of_path(self, pid: int, number: int, target: str, *, hidden: bool) -> OutsideWait | None:
        try:
            mode = os.stat(self._proc / str(pid) / "fd" / str(number)).st_mode
        except OSError:
            return None
        if stat.S_ISFIFO(mode):
            return OutsideWait(f"the named pipe {target}")
        return OutsideWait(f"the device {target}") if stat.S_ISCHR(mode) and not hidden else None

    # -- locks of files ------------------------------------------------------------------------------------------------

    def _of_lock(self, pid: int, run: _Run) -> OutsideWait | None:
        return None if self.lock_holder(pid) in run.pids else OutsideWait("a lock of another program")

    def lock_holder(self, pid: int) -> int | None:
        """``/proc/locks`` lists those who wait below the holder, with its number."""
        holders: dict[str, int] = {}
        try:
            lines = (self._proc / "locks").read_text(encoding="ascii", errors="replace").splitlines()
        except OSError:
            return None
        for line in lines:
            words = line.split()
            if len(words) > 5 and words[1] == "->" and int(words[5]) == pid:
                return holders.get(words[0])
            if len(words) > 4 and words[1] != "->":
                holders[words[0]] = int(words[4])
        return None

    # -- /proc -------------------------------------------------------------------------------------------------------

    def _threads(self, pid: int) -> list[str]:
        try:
            return os.listdir(self._proc / str(pid) / "task")[:MAX_THREADS]
        except OSError:
            return []

    def _files(self, pid: int) -> list[tuple[int, str]]:
        folder = self._proc / str(pid) / "fd"
        found: list[tuple[int, str]] = []
        try:
            for name in os.listdir(folder)[:_MAX_FILES]:
                found.append((int(name), os.readlink(folder / name)))
        except OSError:
            pass  # closed meanwhile, or not ours to read
        return found

    def _access(self, pid: int, number: int) -> int:
        return int(self._field(pid, number, "flags:") or "0", 8) & _ACCESS

    def _watched(self, pid: int, number: int) -> list[int]:
        lines = [line.split() for line in self._text(pid, f"fdinfo/{number}").splitlines()]
        return [int(words[1]) for words in lines if len(words) > 1 and words[0] == "tfd:"]

    def _is_local(self, pid: int, number: int) -> bool:
        """A file of a server that does not answer must not be looked at."""
        mount = self._field(pid, number, "mnt_id:")
        for line in self._text(pid, "mountinfo").splitlines():
            if line.split(" ", 1)[0] == mount:
                return line.partition(" - ")[2].split(" ", 1)[0] in _LOCAL
        return False

    def _field(self, pid: int, number: int, name: str) -> str:
        lines = (line.split() for line in self._text(pid, f"fdinfo/{number}").splitlines())
        return next((words[1] for words in lines if len(words) > 1 and words[0] == name), "")

    def _text(self, pid: int, name: str) -> str:
        try:
            with open(self._proc / str(pid) / name, encoding="utf-8", errors="replace") as file:
                return file.read(2**22)
        except OSError:
            return ""


def _of_socket(inode: str, run: _Run, sockets: SocketEnds, *, hidden: bool) -> OutsideWait | None:
    if inode in run.tcp:
        return None
    name = sockets.names.get(inode)
    if name is None:
        return None if hidden else OutsideWait("messages from a network")
    if inode in sockets.listening:
        return None if _is_own(name) else OutsideWait(f"clients at {name}", listens=True)
    peer = run.peers.get(inode)
    if peer in run.sockets or _is_own(name) or (peer is not None and _is_own(sockets.names.get(peer, ""))):
        return None
    return OutsideWait(f"messages at {name}" if name else "another program")


def _is_own(name: str) -> bool:
    return any(part in name for part in _OWN_SOCKETS)
