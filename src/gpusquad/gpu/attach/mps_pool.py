"""The MPS pool of a card: tenants of the class ``shared`` run at once in it, and a fatal fault of one reaches all.

It is started for the first of them and stopped after the last. One server serves one user, so all of them are of one
user id.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Collection
from pathlib import Path

from gpusquad.gpu.mps import PROGRAM, MpsDaemon, ProgramRunner, run_here
from gpusquad.model.errors import Invalid
from gpusquad.model.sharing_params import SharingParams

IMPORTANT, BEST_EFFORT = 0, 1
"""Client priorities of MPS: the lower number goes first."""
_PRIORITY, _LIMIT = "CUDA_MPS_CLIENT_PRIORITY", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
_MIB = 1 << 20
_LOOK_EVERY_S = 15.0
_log = logging.getLogger(__name__)


class MpsPool:
    """``trouble`` says in words why there is none."""

    def __init__(self, uuid: str, folder: Path, wanted: bool = True, run: ProgramRunner = run_here) -> None:
        self._daemon = MpsDaemon(uuid, folder, run)
        self._wanted = wanted
        self._looked_s = float("-inf")
        self.trouble = ""

    @property
    def is_installed(self) -> bool:
        return self._wanted and shutil.which(PROGRAM) is not None

    @property
    def pipes(self) -> Path:
        return self._daemon.pipes

    def start(self) -> bool:
        """Runs, is found running, or is started. False: ``trouble`` says why not, and tenants are time sliced."""
        if not self._wanted:
            return self._none("MPS is turned off in the settings")
        if not self.is_installed:
            return self._none(f"{PROGRAM} is not installed")
        try:
            if not self._is_well():
                self._restart()
        except (Invalid, OSError) as error:
            return self._none(f"the MPS daemon does not start: {error}")
        self.trouble = ""
        return True

    def mend(self) -> None:
        """Now and then, while tenants are in it: after a fault, or if its daemon died, there is a new one."""
        if time.monotonic() - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = time.monotonic()
            self.start()

    def stop(self) -> None:
        """Nothing happens if it does not run."""
        if self._daemon.pid() is not None and self.is_installed:
            with contextlib.suppress(Invalid, OSError):
                self._daemon.quit()
        shutil.rmtree(self._daemon.folder, ignore_errors=True)

    def env(self, is_important: bool, limit_bytes: int | None = None) -> dict[str, str]:
        """For a tenant's processes. The priority is fixed when they start. Of a card that has a UUID the engine says
        itself which it is; one with a number has number 0 here."""
        env = self._daemon.env()
        if env["CUDA_VISIBLE_DEVICES"] != "0":
            del env["CUDA_VISIBLE_DEVICES"]
        env[_PRIORITY] = str(IMPORTANT if is_important else BEST_EFFORT)
        if limit_bytes is not None:
            env[_LIMIT] = f"0={-(-limit_bytes // _MIB)}M"
        return env

    def pids(self) -> list[int]:
        """Of its daemon and servers, which the driver lists among the card's processes."""
        pid = self._daemon.pid()
        if pid is None:
            return []
        try:
            return [pid, *self._daemon.servers()]
        except (Invalid, OSError):
            return [pid]

    def let_go(self, pids: Collection[int]) -> list[int]:
        """Clients that are about to be killed. Those that were clients."""
        if not pids or self._daemon.pid() is None:
            return []
        try:
            return self._daemon.terminate(pids)
        except (Invalid, OSError) as error:
            _log.warning("MPS did not let go of %s: %s", sorted(pids), error)
            return []

    def _is_well(self) -> bool:
        if self._daemon.pid() is None:
            return False
        try:
            if not self._daemon.is_faulty():
                return True
            _log.warning("a fault of one tenant has reached all in the MPS pool %s: it is made anew", self.pipes.parent)
        except Invalid as error:
            _log.warning("the MPS pool %s is made anew: %s", self.pipes.parent, error)
        return False

    def _restart(self) -> None:
        if self._daemon.pid() is not None:
            with contextlib.suppress(Invalid, OSError):
                self._daemon.quit()
        for place in (self.pipes, self._daemon.folder / "log"):
            place.mkdir(parents=True, exist_ok=True)
            place.chmod(0o755)
        self._daemon.folder.chmod(0o755)
        for left in self.pipes.iterdir():  # the folder itself stays: containers have it mounted
            left.unlink(missing_ok=True)
        self._daemon.start()

    def _none(self, why: str) -> bool:
        if why != self.trouble:
            _log.warning("no MPS pool, so tenants of the card take turns (time slicing): %s", why)
        self.trouble = why
        return False


def is_important(sharing_params: SharingParams) -> bool:
    """Passes queued work of others in MPS: who has a latency goal, or stands above normal."""
    return sharing_params.priority > 0 or (sharing_params.slo is not None and sharing_params.slo.latency_us is not None)
