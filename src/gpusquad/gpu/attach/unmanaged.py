"""Who is on a shared card and held by nothing: processes of nobody who has a part of it, and those of somebody who has
one that run without the library. What the driver lists is held against what the card's daemon knows."""

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
"""A process may be on the card for a moment before the library has told of it."""
_CLOSE_S = 5.0
_log = logging.getLogger(__name__)
Look = TypeVar("Look")
Key = tuple[str, int]
"""A physical card, and the machine's pid of a process on it."""


@dataclass(frozen=True, slots=True)
class ListedProcess:
    """A process that the driver lists."""

    process: UnmanagedProcess
    owner: str | None = None
    """Whose it is, by the name under which parts are given (``Holder.owner``). None: nobody's."""
    is_doubtful: bool = False
    """One of nobody may yet be somebody's of whom nothing is seen."""


class UnmanagedWatch(Generic[Look]):
    """Hears of each look at the cards, tells their daemons who is on them, and people of each stranger once.

    In a thread of its own: a daemon that does not answer must not hold up the looks. What comes while it is busy is
    left out, for the next look says it again.
    """

    def __init__(
        self,
        sharing: CardSharing,
        read: Callable[[Look], Mapping[str, Mapping[int, ListedProcess]]],
        tell: Callable[[str, ListedProcess], None],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``read``: by physical card, who is on it by pid. None are some too, for strangers leave; a card that does not
        tell is left out."""
        self._sharing, self._read, self._tell, self._clock_s = sharing, read, tell, clock_s
        self.unheld: frozenset[Key] = frozenset()
        """Of those who have a part of the card: processes on it that have not loaded the library, and had the time to.
        As last seen; may be asked by any thread."""
        self._unheld_since_s: dict[Key, float] = {}
        self._told: set[Key] = set()
        self._seen: dict[str, Collection[int]] = {}
        """By card, who was on it when it last told."""
        self._heard: queue.Queue[Look | None] = queue.Queue(maxsize=1)
        self._thread = threading.Thread(target=self._run, name="gpusquad-lookout", daemon=True)
        self._thread.start()

    def hear(self, look: Look) -> None:
        with contextlib.suppress(queue.Full):
            self._heard.put_nowait(look)

    def close(self) -> None:
        with contextlib.suppress(queue.Full):  # then it waits for a daemon, and ends with the process
            self._heard.put(None, timeout=_CLOSE_S)
            self._thread.join(_CLOSE_S)

    def see(self, look: Look) -> None:
        """What one look says of strangers."""
        by_card = self._read(look)
        found = {(card, pid): on[pid] for card, on in by_card.items() for pid in self._strangers(card, on) if pid in on}
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
                _log.exception("the processes on the cards could not be looked at")

    def _strangers(self, card: str, on: Mapping[int, ListedProcess]) -> Sequence[int]:
        unheld = self._unheld(card, on)
        ours = [pid for pid, one in on.items() if one.process.is_harmless or self._is_ours(card, one, unheld)]
        return self._sharing.report_processes(card, [one.process for one in on.values()], ours)

    def _is_ours(self, card: str, one: ListedProcess, unheld: Collection[int]) -> bool:
        """Or may be: one that was not there a moment ago can be of somebody who has just come."""
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
    """What a process in a namespace of its own takes for its pid: the library writes down that one."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return pid
    return next((int(line.split()[-1]) for line in status.splitlines() if line.startswith("NSpid:")), pid)
