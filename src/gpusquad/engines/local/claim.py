"""The claim of a run folder: the first claim decides the attempt permanently."""

from __future__ import annotations

import json

from gpusquad.engines.local import atomic_file
from gpusquad.engines.local.processes import ProcessIdentity
from gpusquad.engines.local.run_folder import RunFolder


class RunFolderClaim:
    """A supervisor has it, or it is void: an outcome is written in place of a supervisor, and none can start."""

    __slots__ = ("end", "supervisor")

    def __init__(self, supervisor: ProcessIdentity | None, end: dict | None) -> None:
        self.supervisor = supervisor
        self.end = end
        """Outcome as in `status`. With neither, the claim is unreadable: it was taken, but the owner is unknown."""


def take(folder: RunFolder, supervisor: ProcessIdentity) -> bool:
    """Called by the supervisor. False: it must not start anything."""
    return _place(folder, {"pid": supervisor.pid, "start_ticks": supervisor.start_ticks, "boot_id": supervisor.boot_id})


def void(folder: RunFolder, end: dict) -> bool:
    """Called by the engine: no supervisor may start this attempt any more. False: it is already claimed."""
    return _place(folder, {"end": end})


def read(folder: RunFolder) -> RunFolderClaim | None:
    """None: unclaimed."""
    data = atomic_file.read(folder.claim)
    if data is None:
        return None
    try:
        body = json.loads(data)
        if "end" in body:
            return RunFolderClaim(None, dict(body["end"]))
        return RunFolderClaim(ProcessIdentity(int(body["pid"]), int(body["start_ticks"]), str(body["boot_id"])), None)
    except (ValueError, KeyError, TypeError):
        return RunFolderClaim(None, None)  # a power failure can leave an empty file


def _place(folder: RunFolder, body: dict) -> bool:
    return atomic_file.place(folder.claim, json.dumps(body).encode() + b"\n")
