"""The local engine: gangs as processes of this machine that outlive the service."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from gpusquad.core.ports import AttemptEnded, Launch, Report
from gpusquad.engines.local import claim, launch_orders, orphans, processes
from gpusquad.engines.local.attempt_watcher import AttemptWatcher
from gpusquad.engines.local.launch_orders import LaunchContext, LogLimits
from gpusquad.engines.local.loop import Act, EngineLoop
from gpusquad.engines.local.names import Key, all_keys, checked, run_folder
from gpusquad.engines.local.orphans import OrphanReaper
from gpusquad.engines.local.reporter import ReportQueue
from gpusquad.engines.local.shares import Shares
from gpusquad.engines.local.stop_file import StopRequest
from gpusquad.gpu.api import CardSharing, NoSharing
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid
from gpusquad.model.sharing_params import SharingParams

__all__ = ["LocalEngine", "LogLimits"]

_log = logging.getLogger(__name__)
_LONGEST_GRACE_S = 7 * 24 * 3600.0


class LocalEngine:
    """Implements `core.ports.Engine`. Three threads for any number of gangs, one more during recovery, and one if cards
    are shared.
    """

    def __init__(
        self,
        home: Path,
        on_report: Callable[[Report], None],
        log_limits: LogLimits = LogLimits(),  # noqa: B008, it is frozen
        *,
        uuid_of: Callable[[str], str] = str,
        start_at_once: int | None = None,
        sharing: CardSharing = NoSharing(),  # noqa: B008, it is frozen
        cards: Iterable[Card] = (),
        share_note: str = "",
    ) -> None:
        """``uuid_of``: the driver's name of a card. ``start_at_once``: number of gangs that may be starting at a time.
        ``sharing``: enforces the tasks' shares of ``cards``. ``share_note``: called for each gang with shares.
        """
        _check_kernel()
        # Processes are identified by their folder, so it must have one name, whatever path the service was started
        # with.
        self._home = Path(os.path.realpath(home))
        self._loop = EngineLoop("gpusquad-engine")
        self._reporter = ReportQueue(on_report)
        self._reaper = OrphanReaper()
        around = LaunchContext(self._home, log_limits, dict(os.environ), uuid_of)
        at_once = start_at_once or max(4, 2 * (os.cpu_count() or 1))
        self._shares = Shares(sharing, {card.id: card for card in cards}, share_note)
        self._watcher = AttemptWatcher(self._loop, around, self._reporter, self._reaper, at_once, self._shares)
        for thread in (self._reporter, self._reaper, self._loop, self._shares):
            thread.start()

    def launch(self, launch: Launch) -> None:
        """Start all tasks of an attempt, or none. Invalid: its id cannot be used."""
        checked(launch.job_id, launch.attempt)
        launch_orders.check(launch)
        self._call(partial(self._watcher.launch, launch))

    def stop(self, job_id: str, attempt: int, cause: str, grace_s: float) -> None:
        """Ask the tasks to end, and kill them after the grace time."""
        key = checked(job_id, attempt)
        self._call(partial(self._watcher.stop, key, StopRequest(cause, min(max(0.0, grace_s), _LONGEST_GRACE_S))))

    def change(self, job_id: str, attempt: int, tasks: int, sharing_params: SharingParams) -> None:
        """Apply new sharing parameters on the cards that its tasks share."""
        self._shares.change(checked(job_id, attempt), tasks, sharing_params)

    def resize(self, job_id: str, attempt: int, tasks: int, before_bytes: int, memory_bytes: int) -> None:
        """Change the memory quota of each task. Invalid: a task holds more."""
        self._shares.resize(checked(job_id, attempt), tasks, before_bytes, memory_bytes)

    def peak_memory_bytes(self, job_id: str, attempt: int, tasks: int) -> Sequence[int]:
        """Peak card memory by task. 0: unknown, for example because its quota is not enforced."""
        return self._shares.peak_memory_bytes(checked(job_id, attempt), tasks)

    def recover(self, attempts: Sequence[tuple[str, int]]) -> None:
        """Report on each of these, and stop everything else of ours that runs. Call it once, before any launch."""
        for job_id, attempt in attempts:
            try:
                self._call(partial(self._watcher.recover, checked(job_id, attempt)))
            except Invalid as problem:
                self._reporter.send(AttemptEnded(job_id, attempt, "lost", str(problem), never_started=True))
        threading.Thread(target=self._find_orphans, name="gpusquad-orphans", daemon=True).start()

    def close(self) -> None:
        """Stop watching. Tasks continue."""
        self._loop.close()
        self._shares.close()
        self._reaper.close()
        self._reporter.close()
        self._watcher.close()

    def _call(self, act: Act) -> None:
        if not self._loop.call(act):
            raise RuntimeError("the engine has been closed")

    def _find_orphans(self) -> None:
        """In a thread of its own, because there may be very many old run folders."""
        try:
            with_orphans = orphans.marked_keys(partial(run_folder, self._home))
            open_folders = {key for key in all_keys(self._home) if _may_run(self._home, key)}
            for key in with_orphans | open_folders:
                self._loop.call(partial(self._watcher.orphan, key, key in with_orphans))
            self._loop.call(self._watcher.knows_all)
        except Exception:
            _log.exception("the run folders could not be searched for forgotten gangs")


def _check_kernel() -> None:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        raise Invalid("kernel", f"processes cannot be watched: {error}", "Linux 5.4 or newer is needed") from error


def _may_run(home: Path, key: Key) -> bool:
    """Unclaimed, or claimed by a live supervisor."""
    owner = claim.read(run_folder(home, key))
    if owner is None:
        return True
    pidfd = processes.hold(owner.supervisor) if owner.supervisor is not None else None
    if pidfd is not None:
        os.close(pidfd)
    return pidfd is not None
