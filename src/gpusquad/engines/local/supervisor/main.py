"""The supervisor, from its launch order to the end of its gang."""

from __future__ import annotations

import contextlib
import os

from gpusquad.engines.local import cgroups, claim, processes, stop_file
from gpusquad.engines.local.run_folder import RunFolder
from gpusquad.engines.local.supervisor import cleanup, launch_order, syscalls
from gpusquad.engines.local.supervisor.gang import ProcessGang
from gpusquad.engines.local.supervisor.inbox import Inbox
from gpusquad.engines.local.supervisor.launch_order import LaunchOrder
from gpusquad.engines.local.supervisor.start import GangStart
from gpusquad.engines.local.supervisor.status_record import StatusRecord
from gpusquad.engines.local.supervisor.watch import GangWatch

DONE, CUT_SHORT, TAKEN, TROUBLE = 0, 3, 4, 5


def main(path: str) -> int:
    """One attempt. Single-threaded for its whole life, because tasks are tied to the thread that forked them."""
    _close_inherited()
    folder = RunFolder(path)
    inbox = Inbox(folder)
    ordered = launch_order.decode(_read_all(0))
    _point_at_nothing(0)
    if ordered is None:
        return CUT_SHORT
    try:
        supervisor = _claimed(folder, inbox, ordered)
    except OSError as error:  # for example a full disk; an error message could not be written either
        _tell_engine(launch_order.TROUBLE + str(error).encode("utf-8", "replace"))
        return TROUBLE
    if supervisor is None:
        return TAKEN
    supervisor.run()
    return DONE


def _claimed(folder: RunFolder, inbox: Inbox, ordered: LaunchOrder) -> Supervisor | None:
    """None: another supervisor has the attempt."""
    me = processes.identity(os.getpid())
    assert me is not None
    return Supervisor(folder, inbox, ordered) if claim.take(folder, me) else None


class Supervisor:
    """State of a supervisor once it has claimed the attempt."""

    def __init__(self, folder: RunFolder, inbox: Inbox, ordered: LaunchOrder) -> None:
        tasks_umask = os.umask(0o077)
        os.chdir("/")  # so that no file system stays busy
        syscalls.adopt_orphans()
        self._inbox = inbox
        self._order = ordered
        self._record = StatusRecord(folder, ordered)
        stop_file.reserve(folder)
        self._groups = cgroups.plan(f"{ordered.job_id}-{ordered.attempt}-", len(ordered.tasks))
        self._gang = ProcessGang(ordered, self._groups, folder.logs, tasks_umask)
        self._notes: list[str] = []

    def run(self) -> None:
        self._record.write(groups=self._groups.to_dict())
        for note in self._order.notes:
            self._note(note)
        self._note(self._groups.make([task.limits for task in self._order.tasks]))
        self._record.write(groups=self._groups.to_dict())
        # A stop request written before the claim came without a signal that we could have received.
        self._inbox.look()
        end = self._start() or self._watch()
        self._finish(end)

    def _start(self) -> dict | None:
        start = GangStart(self._gang, self._inbox, self._order.grace_s)
        end = start.to_barrier()
        if end is None:
            self._record.write(phase="released", tasks=self._gang.identities())
            end = start.over_barrier()
        for note in start.notes:
            self._note(note)
        if end is not None:
            self._verdict(end)
        elif self._inbox.stop is None:
            self._record.write(phase="running")
            _tell_engine(launch_order.STARTED)
        _point_at_nothing(1)
        return end

    def _watch(self) -> dict:
        return GangWatch(self._gang, self._inbox, self._order.grace_s, self._verdict).run()

    def _finish(self, end: dict) -> None:
        self._note(cleanup.kill_everybody(self._gang, self._inbox, self._note))
        logs = cleanup.finish_logs(self._gang)
        end = {**end, "usage": self._gang.usage()}
        self._groups.remove()
        self._record.write_end(end=end, logs=logs)

    def _verdict(self, end: dict) -> None:
        """Written before the cleanup, so that it stands if the supervisor is killed meanwhile."""
        self._record.write(phase="ending", end=end)

    def _note(self, note: str) -> None:
        if note and note not in self._notes:
            self._notes.append(note)
            self._record.write(limits_note="; ".join(self._notes))


def _read_all(handle: int) -> bytes:
    parts = []
    while part := os.read(handle, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _close_inherited() -> None:
    """File descriptors that the service inherited."""
    for handle in map(int, os.listdir("/proc/self/fd")):
        if handle > 2:
            with contextlib.suppress(OSError):  # the descriptor that listed them
                os.close(handle)


def _point_at_nothing(handle: int) -> None:
    """Closed, but not reused by chance for one of our files."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, handle)
    os.close(nothing)


def _tell_engine(word: bytes) -> None:
    with contextlib.suppress(OSError):  # the service may be dead: it will read the status
        os.write(1, word)
