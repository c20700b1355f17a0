"""The MPS pool of a card: ``shared`` clients run concurrently in it, and a fatal fault of one ends all of them.

It starts with the first client and stops after the last. An MPS server serves one user, so all have one user id.
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
"""MPS client priorities: the lower number goes first."""
_PRIORITY, _LIMIT = "CUDA_MPS_CLIENT_PRIORITY", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
_MIB = 1 << 20
_CHECK_INTERVAL_S = 15.0
_log = logging.getLogger(__name__)


class MpsPool:
    """``trouble``: message why there is no pool."""

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
        """Start the pool unless it runs. False: ``trouble`` says why not, and clients are time-sliced."""
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

    def repair(self) -> None:
        """Restart the pool after a fault or the end of its daemon. Called regularly while it has clients."""
        if time.monotonic() - self._looked_s >= _CHECK_INTERVAL_S:
            self._looked_s = time.monotonic()
            self.start()

    def stop(self) -> None:
        """Stop the pool if it runs."""
        if self._daemon.pid() is not None and self.is_installed:
            with contextlib.suppress(Invalid, OSError):
                self._daemon.quit()
        shutil.rmtree(self._daemon.folder, ignore_errors=True)

    def env(self, is_important: bool, limit_bytes: int | None = None) -> dict[str, str]:
        """Environment of a client's processes. The priority is fixed when they start. The engine sets the UUID of the
        card; a card without one has number 0 here."""
        env = self._daemon.env()
        if env["CUDA_VISIBLE_DEVICES"] != "0":
            del env["CUDA_VISIBLE_DEVICES"]
        env[_PRIORITY] = str(IMPORTANT if is_important else BEST_EFFORT)
        if limit_bytes is not None:
            env[_LIMIT] = f"0={-(-limit_bytes // _MIB)}M"
        return env

    def pids(self) -> list[int]:
        """Pids of its daemon and servers, which the driver lists among the card's processes."""
        pid = self._daemon.pid()
        if pid is None:
            return []
        try:
            return [pid, *self._daemon.servers()]
        except (Invalid, OSError):
            return [pid]

    def terminate(self, pids: Collection[int]) -> list[int]:
        """Terminate MPS clients before they are killed. Returns those that were MPS clients."""
        if not pids or self._daemon.pid() is None:
            return []
        try:
            return self._daemon.terminate(pids)
        except (Invalid, OSError) as error:
            _log.warning("MPS did not release %s: %s", sorted(pids), error)
            return []

    def _is_well(self) -> bool:
        if self._daemon.pid() is None:
            return False
        try:
            if not self._daemon.is_faulty():
                return True
            _log.warning("restarting the MPS pool %s: a client had a fatal fault", self.pipes.parent)
        except Invalid as error:
            _log.warning("restarting the MPS pool %s: %s", self.pipes.parent, error)
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
            _log.warning("no MPS pool; clients of the card are time-sliced: %s", why)
        self.trouble = why
        return False


def is_important(sharing_params: SharingParams) -> bool:
    """Whether its kernels go before waiting kernels of others in MPS: latency SLO, or priority above normal."""
    return sharing_params.priority > 0 or (sharing_params.slo is not None and sharing_params.slo.latency_us is not None)
