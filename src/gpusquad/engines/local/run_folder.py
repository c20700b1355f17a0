"""The folder of one attempt: all that the service and the keeper know of each other."""

from __future__ import annotations

import os


class RunFolder:
    """``runs/JOB/ATTEMPT``. The parts of the path are checked by `names` before they come here.

    | in it | what | written by |
    |---|---|---|
    | claim | whose attempt this is: the one guard against a double start | who comes first, once |
    | status.json | how far the attempt is, and its end | the keeper; the engine once the keeper is dead |
    | stop.json | blank, or why and how gently to stop | the engine |
    | logs/TASK.START.log | what the tasks wrote | the keeper |
    | progress/TASK | how far a task says it is | the task |
    | keeper.log | complaints of the keeper itself | the keeper |
    """

    __slots__ = ("claim", "keeper_log", "logs", "path", "progress", "status", "stop")

    def __init__(self, path: str) -> None:
        self.path = path
        self.claim = os.path.join(path, "claim")
        self.status = os.path.join(path, "status.json")
        self.stop = os.path.join(path, "stop.json")
        self.logs = os.path.join(path, "logs")
        self.progress = os.path.join(path, "progress")
        self.keeper_log = os.path.join(path, "keeper.log")

    def make(self) -> None:
        """Ready to be claimed; nothing happens if it is."""
        for folder in (self.path, self.logs, self.progress):
            make_private(folder)


def make_private(path: str) -> None:
    """A folder for us alone, and those above it too where they are missing."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_private(os.path.dirname(path))
        make_private(path)
