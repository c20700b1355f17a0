"""Processes by an identity that survives the reuse of process ids."""

from __future__ import annotations

import os
import signal
from functools import lru_cache


class ProcessIdentity:
    """One process: its id, its start in clock ticks after boot, and the boot id."""

    __slots__ = ("boot_id", "pid", "start_ticks")

    def __init__(self, pid: int, start_ticks: int, boot_id: str) -> None:
        self.pid = pid
        self.start_ticks = start_ticks
        self.boot_id = boot_id


class ProcStat:
    """The fields of /proc/PID/stat that we need."""

    __slots__ = ("is_over", "parent", "pid", "session", "start_ticks")

    def __init__(self, pid: int, text: bytes) -> None:
        # The program name is the second field, in brackets, and may contain spaces and brackets itself.
        fields = text[text.rindex(b")") + 2 :].split()
        self.pid = pid
        self.parent, self.session = int(fields[1]), int(fields[3])
        self.start_ticks = int(fields[19])
        # Dead but not reaped. Threads can continue after the first one has ended.
        self.is_over = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1


def identity(pid: int) -> ProcessIdentity | None:
    """Identity of the process that has this id now."""
    found = stat(pid)
    return None if found is None else ProcessIdentity(pid, found.start_ticks, boot_id())


def hold(who: ProcessIdentity) -> int | None:
    """A pidfd of exactly that process, or None if it is gone. A pidfd stays valid when the process id is reused."""
    if who.boot_id != boot_id():
        return None
    try:
        pidfd = os.pidfd_open(who.pid)
    except (ProcessLookupError, ValueError, OverflowError):
        return None
    # Read after the pidfd was opened: if the id was reused before, the start time differs.
    found = stat(who.pid)
    if found is None or found.start_ticks != who.start_ticks or found.is_over:
        os.close(pidfd)
        return None
    return pidfd


def send(pidfd: int, number: int) -> bool:
    """Signal a process by its pidfd. False: it is gone."""
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    return True


def kill(who: ProcessIdentity, number: int) -> bool:
    """Signal exactly that process. False: it is gone. PermissionError: it is not ours."""
    pidfd = hold(who)
    if pidfd is None:
        return False
    try:
        return send(pidfd, number)
    finally:
        os.close(pidfd)


def stat(pid: int) -> ProcStat | None:
    """None: there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return ProcStat(pid, file.read())
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return None


def everyone() -> list[ProcStat]:
    """Every visible process."""
    found = (stat(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return [one for one in found if one is not None]


def descendants(ancestor: int) -> list[ProcStat]:
    """All descendants, including dead ones that are not reaped."""
    children: dict[int, list[ProcStat]] = {}
    for one in everyone():
        children.setdefault(one.parent, []).append(one)
    found: list[ProcStat] = []
    parents = [ancestor]
    while parents:
        mine = children.pop(parents.pop(), [])
        found += mine
        parents += [one.pid for one in mine]
    return found


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Differs after every boot: process ids of another boot are meaningless."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
