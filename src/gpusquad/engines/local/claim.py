"""The claim of a run folder: who made it first decides what becomes of the attempt, for ever."""

from __future__ import annotations

import json

from gpusquad.engines.local import atomic_file
from gpusquad.engines.local.processes import ProcessIdentity
from gpusquad.engines.local.run_folder import RunFolder


class RunFolderClaim:
    """A keeper has it, or it is void: an end is written where a keeper would have been, and none can start."""

    __slots__ = ("end", "keeper")

    def __init__(self, keeper: ProcessIdentity | None, end: dict | None) -> None:
        self.keeper = keeper
        self.end = end
        """As `status` describes ends. With neither, the claim cannot be read: somebody had it, nobody knows who."""


def take(folder: RunFolder, keeper: ProcessIdentity) -> bool:
    """The keeper's: False means that it must not start anything."""
    return _place(folder, {"pid": keeper.pid, "start_ticks": keeper.start_ticks, "boot_id": keeper.boot_id})


def void(folder: RunFolder, end: dict) -> bool:
    """The engine's: no keeper may start this attempt any more. False: somebody has it already."""
    return _place(folder, {"end": end})


def read(folder: RunFolder) -> RunFolderClaim | None:
    """None: nobody has it yet."""
    data = atomic_file.read(folder.claim)
    if data is None:
        return None
    try:
        body = json.loads(data)
        if "end" in body:
            return RunFolderClaim(None, dict(body["end"]))
        return RunFolderClaim(ProcessIdentity(int(body["pid"]), int(body["start_ticks"]), str(body["boot_id"])), None)
    except (ValueError, KeyError, TypeError):
        return RunFolderClaim(None, None)  # a power cut can leave an empty file


def _place(folder: RunFolder, body: dict) -> bool:
    return atomic_file.place(folder.claim, json.dumps(body).encode() + b"\n")
