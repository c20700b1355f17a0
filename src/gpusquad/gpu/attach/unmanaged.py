"""Finds unmanaged processes on shared cards: processes of no client, and processes of clients without the shim.

Compares the driver's list of processes with the clients of the card daemon.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from gpusquad.gpu.api import CardSharing
from gpusquad.gpu.daemon.unmanaged import UnmanagedProcess

GRACE_S = 5.0
"""Time that a process may be on the card before the shim registers it."""
_CLOSE_S = 5.0
_log = logging.getLogger(__name__)
Look = TypeVar("Look")
Key = tuple[str, int]
"""Physical card, and the machine's pid of a process on it."""


@dataclass(frozen=True, slots=True)
class ListedProcess:
    """A process in the driver's list."""

    process: UnmanagedProcess
    owner: str | None = None
    """``Holder.owner`` of its client. None: it belongs to no client."""
    is_doubtful: bool = False
    """Without an owner: it may belong to a client that cannot be seen."""


class UnmanagedWatch(Generic[Look]):
    """Reports the processes of each look to the card daemons, and each unmanaged process once to users.

    It has its own thread, so that a daemon that does not answer does not delay the looks. Looks that arrive while it is
    busy are dropped: the next one has the same information.
    """

    def __init__(
        self,
        sharing: CardSharing,
        read: Callable[[Look], Mapping[str, Mapping[int, ListedProcess]]],
        tell: Callable[[str, ListedProcess], None],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``read``: returns the processes by physical card and pid. A card without processes has an empty entry; a card
        that cannot be read has none."""
        self._sharing, self._read, self._tell, self._clock_s = sharing, read, tell, clock_s
        self.unheld: frozenset[Key] = frozenset()
        """Processes of clients that have not loaded the shim after ``GRACE_S``, as of the last look. Any thread may
        read it."""
        self._unheld_since_s: dict[Key, float] = {}
        self._told: set[Key] = set()
        self._seen: dict[str, Collection[int]] = {}
        """By card: pids of its last look."""
        self._heard: queue.Queue[Look | None] = queue.Queue(maxsize=1)
        self._thread = threading.Thread(target=self._run, name="gpusquad-unmanaged", daemon=True)
        self._thread.start()

    def hear(self, look: Look) -> None:
        with contextlib.suppress(queue.Full):
            self._heard.put_nowait(look)

    def close(self) -> None:
        with contextlib.suppress(queue.Full):  # then it waits for a daemon and ends with the process
            self._heard.put(None, timeout=_CLOSE_S)
            self._thread.join(_CLOSE_S)

    def see(self, look: Look) -> None:
        """Handle one look."""
        by_card = self._read(look)
        found = {(card, pid): on[pid] for card, on in by_card.items() for pid in self._unmanaged(card, on) if pid in on}
        self._seen |= {card: frozenset(on) for card, on in by_card.items()}
        for key, one in found.items():
            if key not in self._told:
                self._tell(key[0], one)
        self._told = set(found)

    def _run(self) -> None:
        while (look := self._heard.get()) is not None:
            try:
                self.see(look)
            except Exception:
                _log.exception("cannot check the processes on the cards")

    def _unmanaged(self, card: str, on: Mapping[int, ListedProcess]) -> Sequence[int]:
        unheld = self._unheld(card, on)
        ours = [pid for pid, one in on.items() if one.process.is_harmless or self._is_ours(card, one, unheld)]
        return self._sharing.report_processes(card, [one.process for one in on.values()], ours)

    def _is_ours(self, card: str, one: ListedProcess, unheld: Collection[int]) -> bool:
        """Also True for a new process, which may belong to a client that has just started."""
        pid = one.process.pid
        if one.owner is not None:
            return pid not in unheld
        is_new = pid not in self._seen.get(card, {pid})
        return is_new or (one.is_doubtful and (card, pid) not in self._told)

    def _unheld(self, card: str, on: Mapping[int, ListedProcess]) -> set[int]:
        held: dict[str, set[int]] = {}
        for client, pids in self._sharing.client_pids(card).items():
            held.setdefault(client.rpartition("/")[0], set()).update(pids)
        now_s, before = self._clock_s(), self._unheld_since_s
        since_s = {
            pid: before.get((card, pid), now_s)
            for pid, one in on.items()
            if (pids := held.get(one.owner or "")) is not None and pid not in pids and inner_pid(pid) not in pids
        }
        others = {key: at_s for key, at_s in before.items() if key[0] != card}
        self._unheld_since_s = others | {(card, pid): at_s for pid, at_s in since_s.items()}
        self.unheld = frozenset(key for key, at_s in self._unheld_since_s.items() if now_s - at_s >= GRACE_S)
        return {pid for of_card, pid in self.unheld if of_card == card}


def inner_pid(pid: int) -> int:
    """Pid of a process in its own namespace, which is the one that the shim records."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return pid
    return next((int(line.split()[-1]) for line in status.splitlines() if line.startswith("NSpid:")), pid)
