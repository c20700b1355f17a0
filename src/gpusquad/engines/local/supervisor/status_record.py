"""Writes the status file for the supervisor."""

from __future__ import annotations

import sys
import time

from gpusquad.engines.local import processes
from gpusquad.engines.local.run_folder import RunFolder
from gpusquad.engines.local.status import StatusFile
from gpusquad.engines.local.supervisor.launch_order import LaunchOrder

_TRIES = 60
_PAUSE_S = 1.0


class StatusRecord:
    """Everything known so far. Every change is written at once."""

    def __init__(self, folder: RunFolder, order: LaunchOrder) -> None:
        self._file = StatusFile.make(folder, len(order.tasks))
        self._known = {
            "version": 1,
            "job": order.job_id,
            "attempt": order.attempt,
            "phase": "claimed",
            "boot_id": processes.boot_id(),
            "grace_s": order.grace_s,
            "ports": order.ports,
            "limits_note": "",
        }

    def write(self, **changes: object) -> bool:
        """False: it could not be written, which should not happen to a file of fixed size."""
        self._known.update(changes)
        try:
            self._file.write(self._known)
        except OSError as error:
            print(f"status: {error}", file=sys.stderr)
            return False
        return True

    def write_end(self, **changes: object) -> None:
        """Retries for a while: without it the attempt counts as lost."""
        for _ in range(_TRIES):
            if self.write(phase="ended", **changes):
                return self._file.sync()
            time.sleep(_PAUSE_S)
