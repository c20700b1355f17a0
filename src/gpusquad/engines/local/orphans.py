"""Processes that outlived their supervisor, found by control group, process id and environment variables."""

from __future__ import annotations

import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gpusquad.engines.local import processes
from gpusquad.engines.local.cgroups import TaskCgroups
from gpusquad.engines.local.names import Key
from gpusquad.engines.local.processes import ProcessIdentity
from gpusquad.engines.local.run_folder import RunFolder
from gpusquad.model.errors import Invalid

Mark = tuple[str, int, str]
"""Job, attempt and run folder: ids may be equal in the homes of two services, folders are not."""

_log = logging.getLogger(__name__)
_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 1.0
_CLEAN_LOOKS = 2
"""In a row: a process that is just starting a program shows no variables for a moment."""
_LOOK_PAUSE_S = 0.05
_SPARED_S = 5.0
_STUCK_S = 10.0


@dataclass(slots=True)
class OrphanCleanup:
    """One abandoned attempt."""

    key: Key
    folder: RunFolder
    known: dict
    on_clear: Callable[[str], None]
    """Called once no process is left, with a note on those we may not kill."""
    clean_looks: int = 0
    reported: bool = False
    began_s: float = field(default_factory=time.monotonic)

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.began_s


class OrphanReaper:
    """A thread that kills orphans until none is left. It waits for those that hang in the kernel."""

    def __init__(self) -> None:
        self._new: queue.SimpleQueue[OrphanCleanup | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="gpusquad-orphans", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, cleanup: OrphanCleanup) -> None:
        self._new.put(cleanup)

    def close(self) -> None:
        self._new.put(None)
        self._thread.join()

    def _run(self) -> None:
        cleanups: list[OrphanCleanup] = []
        pause_s = _FIRST_PAUSE_S
        while self._take_new(cleanups, pause_s if cleanups else None):
            before = len(cleanups)
            try:
                cleanups = _round(cleanups)
            except Exception:
                _log.exception("orphans could not be looked for; trying again")
            pause_s = _FIRST_PAUSE_S if len(cleanups) < before else min(2 * pause_s, _LONGEST_PAUSE_S)

    def _take_new(self, cleanups: list[OrphanCleanup], timeout_s: float | None) -> bool:
        """Wait for a new attempt or for the next round; then take all. False: close."""
        try:
            while True:
                new = self._new.get(timeout=timeout_s)
                if new is None:
                    return False
                cleanups.append(new)
                timeout_s = 0
        except queue.Empty:
            return True


def marked_keys(folder_of: Callable[[Key], RunFolder]) -> set[Key]:
    """Attempts with live processes, in the run folders of this home."""
    found = _marked(None).keys()
    for _ in range(1, _CLEAN_LOOKS):
        time.sleep(_LOOK_PAUSE_S)
        found |= _marked(None).keys()
    return {mark[:2] for mark in found if _is_ours(mark, folder_of)}


def _is_ours(mark: Mark, folder_of: Callable[[Key], RunFolder]) -> bool:
    try:
        return folder_of(mark[:2]).path == mark[2]
    except Invalid:
        return False  # any process can set these variables to anything


def _round(cleanups: list[OrphanCleanup]) -> list[OrphanCleanup]:
    """Kill every process that is found. Returns the cleanups that continue."""
    marked = _marked({(*cleanup.key, cleanup.folder.path) for cleanup in cleanups})
    return [
        cleanup for cleanup in cleanups if not _is_clear(cleanup, marked.get((*cleanup.key, cleanup.folder.path), []))
    ]


def _is_clear(cleanup: OrphanCleanup, marked: list[ProcessIdentity]) -> bool:
    groups = TaskCgroups.from_dict(cleanup.known["groups"]) if "groups" in cleanup.known else None
    spared = groups.kill() if groups else set()
    seen = groups.pids() if groups else set()
    for who in [*marked, *_leaders(cleanup.known)]:
        try:
            if processes.kill(who, signal.SIGKILL):
                seen.add(who.pid)
        except PermissionError:
            seen.add(who.pid)
            spared.add(who.pid)
    given_up = bool(seen) and seen <= spared and cleanup.age_s > _SPARED_S
    cleanup.clean_looks = 0 if seen else cleanup.clean_looks + 1
    if cleanup.clean_looks < _CLEAN_LOOKS and not given_up:
        if cleanup.age_s > _STUCK_S and not cleanup.reported:
            cleanup.reported = True
            _log.warning("processes of attempt %s were killed and do not go away: %s", cleanup.key, sorted(seen))
        return False
    if groups:
        groups.remove()
    cleanup.on_clear(f"; left and not ours to kill: {sorted(seen)}" if given_up else "")
    return True


def _leaders(known: dict) -> list[ProcessIdentity]:
    """First processes of the tasks: they die with the supervisor, unless their program changed its user."""
    boot_id = known.get("boot_id", "")
    found = [ProcessIdentity(pid, ticks, boot_id) for pid, ticks in known.get("tasks", ())]
    return [who for who in found if _runs(who)]


def _runs(who: ProcessIdentity) -> bool:
    one = processes.stat(who.pid)
    return one is not None and one.start_ticks == who.start_ticks and not one.is_over


def _marked(marks: set[Mark] | None) -> dict[Mark, list[ProcessIdentity]]:
    """One scan of all processes for all these marks. None: for any."""
    found: dict[Mark, list[ProcessIdentity]] = {}
    for one in processes.everyone():
        mark = None if one.is_over or one.pid == os.getpid() else _mark_of(one.pid)
        if mark is not None and (marks is None or mark in marks):
            found.setdefault(mark, []).append(ProcessIdentity(one.pid, one.start_ticks, processes.boot_id()))
    return found


def _mark_of(pid: int) -> Mark | None:
    """Read from its initial environment. Only root can read those of other users."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = (part.partition(b"=") for part in file.read().split(b"\0"))
            found = {name: os.fsdecode(value) for name, _, value in pairs if name in _NAMES}
        job_id, attempt, progress = (found[name] for name in _NAMES)
        return job_id, int(attempt), os.path.dirname(os.path.dirname(progress))
    except (OSError, KeyError, ValueError):
        return None


_NAMES = (b"GPUSQUAD_JOB", b"GPUSQUAD_ATTEMPT", b"GPUSQUAD_PROGRESS")
