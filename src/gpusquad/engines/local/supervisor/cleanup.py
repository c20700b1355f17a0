"""After the end: kill remaining processes and keep the last output."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpusquad.engines.local.supervisor.gang import ProcessGang
from gpusquad.engines.local.supervisor.inbox import Inbox
from gpusquad.engines.local.supervisor.poll import wait

_PAUSE_S = 0.05
_SPARED_S = 2.0
"""How long to wait for processes that we may not kill, such as those of a program that changed its user."""
_STUCK_S = 10.0


def kill_everybody(gang: ProcessGang, inbox: Inbox, on_stuck: Callable[[str], object]) -> str:
    """Wait until no process is left. One that hangs in the kernel still holds its card. Returns a note."""
    began_s = time.monotonic()
    told = False
    while True:
        gang.reap()
        left, spared = gang.kill()
        waited_s = time.monotonic() - began_s
        if not left:
            return ""
        if spared == left and waited_s > _SPARED_S:
            return f"processes that are not ours to kill were left: {_listed(left)}"
        if not told and waited_s > _STUCK_S:
            told = True
            on_stuck(f"processes that were killed do not go away: {_listed(left)}")
        wait([inbox.pipe], _PAUSE_S)
        inbox.take(0.0)


def finish_logs(gang: ProcessGang) -> list[list[int]]:
    """Keep what is still in the pipes. Returns bytes written and bytes not kept, by task."""
    for task in gang.tasks:
        task.log.drain()
        task.log.close()
    return [[task.log.written_bytes, task.log.written_bytes - task.log.kept_bytes] for task in gang.tasks]


def _listed(pids: list[int]) -> str:
    return ", ".join(str(pid) for pid in pids[:20])
