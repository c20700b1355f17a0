"""Control groups, version 1 or 2: one per task, for its limits and to find its remaining processes."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time

from gpusquad.engines.local import processes
from gpusquad.engines.local.cgroup_bases import CONTROLLERS, CgroupBase, find_places, pass_on, read, write

_PERIOD_US = 100_000
_LEAST_QUOTA_US = 1_000
"""The kernel's minimum."""
_MAKE_TRIES = 50
_REMOVE_TRIES, _REMOVE_PAUSE_S = 500, 0.01
"""Half a second was not always enough on a loaded machine."""


class TaskLimits:
    """Limits of one task; 0: no limit."""

    __slots__ = ("cpu_milli", "memory_bytes")

    def __init__(self, cpu_milli: int, memory_bytes: int) -> None:
        self.cpu_milli = cpu_milli
        self.memory_bytes = memory_bytes

    def asks(self, controller: str) -> bool:
        return bool(self.cpu_milli if controller == "cpu" else self.memory_bytes)


class TaskCgroups:
    """The control groups of one gang: below each base one folder per task, named PREFIX + rank."""

    def __init__(self, bases: list[str], prefix: str, count: int) -> None:
        self._bases = bases
        self._prefix = prefix
        self._count = count

    def to_dict(self) -> dict:
        return {"bases": self._bases, "prefix": self._prefix, "count": self._count}

    @classmethod
    def from_dict(cls, body: dict) -> TaskCgroups:
        return cls(list(body["bases"]), str(body["prefix"]), int(body["count"]))

    def make(self, limits: list[TaskLimits]) -> str:
        """Create a group for each task, where that is allowed. Returns a note on limits that are not enforced."""
        problems = dict.fromkeys(CONTROLLERS, "not allowed here")
        planned, self._bases = self._bases, []
        for place in find_places():
            if place.base not in planned:
                continue
            for controller in place.controllers:
                del problems[controller]
            try:
                problems.update(_make_in(place, self._prefix, limits))
                self._bases.append(place.base)
            except OSError as error:
                problems.update(dict.fromkeys(place.controllers, error.strerror or str(error)))
        return _note(problems, limits)

    def join(self, task: int) -> None:
        """Called by the task's process itself, before anything else."""
        for base in self._bases:
            write(self._path(base, task), "cgroup.procs", "0")

    def pids(self) -> set[int]:
        """Processes in the groups."""
        return {pid for folder in self._paths() for pid in _pids(folder)}

    def kill(self) -> set[int]:
        """Kill all processes in the groups. Processes forked meanwhile need another call. Returns those that we may not
        kill.
        """
        spared: set[int] = set()
        for folder in self._paths():
            with contextlib.suppress(OSError):
                write(folder, "cgroup.kill", "1")  # version 2 only: all at once, forks included
                continue
            spared |= _kill_listed(folder)
        return spared

    def oom_kills(self, task: int) -> int:
        """Number of the task's processes that the kernel killed for lack of memory."""
        return max((_oom_kills(self._path(base, task)) for base in self._bases), default=0)

    def peak_bytes(self, task: int) -> int:
        """Peak memory of the task's processes, file caches included. 0: unknown."""
        return max((_peak_bytes(self._path(base, task)) for base in self._bases), default=0)

    def remove(self) -> None:
        """Remove the groups once they are empty."""
        for folder in self._paths():
            _remove(folder)
        for base in self._bases:
            with contextlib.suppress(OSError):
                os.rmdir(base)  # fails while other gangs have groups in it

    def _path(self, base: str, task: int) -> str:
        return os.path.join(base, f"{self._prefix}{task}")

    def _paths(self) -> list[str]:
        return [self._path(base, task) for base in self._bases for task in range(self._count)]


def plan(prefix: str, count: int) -> TaskCgroups:
    """Paths of a gang's groups. They are recorded before the groups are created, so that they are found whatever
    happens. A path that exists belongs to another service, because an attempt never starts twice.
    """
    bases = [place.base for place in find_places()]
    if any(os.path.exists(os.path.join(base, f"{prefix}0")) for base in bases):
        prefix = f"{prefix}{os.getpid()}-"
    return TaskCgroups(bases, prefix, count)


def _make_in(place: CgroupBase, prefix: str, limits: list[TaskLimits]) -> dict[str, str]:
    """Returns the controllers whose limits could not be set, and why."""
    problems: dict[str, str] = {}
    made: list[str] = []
    try:
        for task, limit in enumerate(limits):
            folder = os.path.join(place.base, f"{prefix}{task}")
            _make_folder(place, folder)
            made.append(folder)
            problems.update(_set_limits(place, folder, limit))
    except OSError:
        for folder in made:
            _remove(folder)
        raise
    return problems


def _make_folder(place: CgroupBase, folder: str) -> None:
    for _ in range(_MAKE_TRIES):  # the gang that ends last removes the base, perhaps right now
        with contextlib.suppress(FileExistsError):
            os.mkdir(place.base, 0o755)
        try:
            if place.version == 2:
                pass_on(place.base, place.controllers)
            return os.mkdir(folder, 0o755)
        except FileNotFoundError:
            continue
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), folder)


def _set_limits(place: CgroupBase, folder: str, limit: TaskLimits) -> dict[str, str]:
    problems: dict[str, str] = {}
    for controller in place.controllers:
        if limit.asks(controller):
            try:
                _SETTERS[controller, place.version](folder, limit)
            except OSError as error:
                problems[controller] = error.strerror or str(error)
    return problems


def _set_memory_v1(folder: str, limit: TaskLimits) -> None:
    write(folder, "memory.limit_in_bytes", str(limit.memory_bytes))
    with contextlib.suppress(OSError):  # exists only where swap is accounted
        write(folder, "memory.memsw.limit_in_bytes", str(limit.memory_bytes))


def _set_memory_v2(folder: str, limit: TaskLimits) -> None:
    write(folder, "memory.max", str(limit.memory_bytes))
    with contextlib.suppress(OSError):
        write(folder, "memory.swap.max", "0")


def _set_cpu_v1(folder: str, limit: TaskLimits) -> None:
    write(folder, "cpu.cfs_period_us", str(_PERIOD_US))
    write(folder, "cpu.cfs_quota_us", str(_quota_us(limit)))


def _set_cpu_v2(folder: str, limit: TaskLimits) -> None:
    write(folder, "cpu.max", f"{_quota_us(limit)} {_PERIOD_US}")


_SETTERS = {
    ("cpu", 1): _set_cpu_v1,
    ("cpu", 2): _set_cpu_v2,
    ("memory", 1): _set_memory_v1,
    ("memory", 2): _set_memory_v2,
}


def _quota_us(limit: TaskLimits) -> int:
    return max(_LEAST_QUOTA_US, limit.cpu_milli * _PERIOD_US // 1000)


def _note(problems: dict[str, str], limits: list[TaskLimits]) -> str:
    """Only for limits that were requested."""
    parts = [
        f"the {controller} limit does not hold: {problems[controller]}"
        for controller in CONTROLLERS
        if controller in problems and any(limit.asks(controller) for limit in limits)
    ]
    return "; ".join(parts)


def _oom_kills(folder: str) -> int:
    for name in ("memory.events", "memory.oom_control"):
        for line in read(folder, name).splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill":
                return int(value)
    return 0


def _peak_bytes(folder: str) -> int:
    for name in ("memory.peak", "memory.max_usage_in_bytes"):  # version 2, version 1
        value = read(folder, name).strip()
        if value.isdecimal():
            return int(value)
    return 0


def _pids(folder: str) -> set[int]:
    return {int(line) for line in read(folder, "cgroup.procs").split()} - {0}  # 0: a process of another PID namespace


def _kill_listed(folder: str) -> set[int]:
    """A process id from the list may be reused before it is signalled, so check that it is still listed once held."""
    spared: set[int] = set()
    held: dict[int, int] = {}
    for pid in _pids(folder):
        with contextlib.suppress(ProcessLookupError):
            held[pid] = os.pidfd_open(pid)
    listed = _pids(folder)
    for pid, pidfd in held.items():
        try:
            if pid in listed:
                processes.send(pidfd, signal.SIGKILL)
        except PermissionError:
            spared.add(pid)
        finally:
            os.close(pidfd)
    return spared


def _remove(folder: str) -> None:
    """A group stays busy for a moment after its last process was reaped."""
    for _ in range(_REMOVE_TRIES):
        try:
            return os.rmdir(folder)
        except FileNotFoundError:
            return
        except OSError:
            if _pids(folder):
                return
            time.sleep(_REMOVE_PAUSE_S)
