"""The folder of one attempt: the only channel between the service and the supervisor."""

from __future__ import annotations

import os


class RunFolder:
    """``runs/JOB/ATTEMPT``. `names` has checked the parts of the path.

    | file | content | written by |
    |---|---|---|
    | claim | owner of the attempt: the guard against a double start | the first claimant, once |
    | status.json | phase of the attempt, and its outcome | the supervisor; the engine once the supervisor is dead |
    | stop.json | blank, or the reason and the grace time of a stop | the engine |
    | logs/TASK.START.log | output of the tasks | the supervisor |
    | progress/TASK | progress that a task reports | the task |
    | hostfile, machinefile | hosts of a gang, for MPI and similar launchers | the engine |
    | keeper.log | error output of the supervisor | the supervisor |
    """

    __slots__ = ("claim", "logs", "path", "progress", "status", "stop", "supervisor_log")

    def __init__(self, path: str) -> None:
        self.path = path
        self.claim = os.path.join(path, "claim")
        self.status = os.path.join(path, "status.json")
        self.stop = os.path.join(path, "stop.json")
        self.logs = os.path.join(path, "logs")
        self.progress = os.path.join(path, "progress")
        self.supervisor_log = os.path.join(path, "keeper.log")

    def make(self) -> None:
        """Prepare the folder to be claimed. No effect if it is already prepared."""
        for folder in (self.path, self.logs, self.progress):
            make_private(folder)


def make_private(path: str) -> None:
    """Create a private folder, with its parents where they are missing."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_private(os.path.dirname(path))
        make_private(path)
