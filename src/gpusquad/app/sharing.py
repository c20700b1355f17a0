"""Cards of this machine that jobs share: who keeps them to their parts, and who else is on those cards."""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import structlog

from gpusquad.app.config import SharingConfig
from gpusquad.gpu.api import Quota, QuotaFile
from gpusquad.gpu.attach.library import library_for_tenants
from gpusquad.gpu.attach.quota import SquadQuota
from gpusquad.gpu.attach.settings import Settings, default_folder
from gpusquad.gpu.squads.strangers import Stranger
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid
from gpusquad.model.virtual import physical
from gpusquad.server.services.watch import UNHELD, is_harmless

QUOTAS_FOLDER = "quotas"
NOT_KEPT = "jobs that share a card are not kept to their parts"
_CLOSE_S = 5.0
GRACE_S = 5.0
"""A process may be on the card for a moment before the library has told of it."""
_log = structlog.get_logger("gpusquad.sharing")


@dataclass(frozen=True, slots=True)
class Sharing:
    """How cards are shared here."""

    quota: Quota | None = None
    """None: the cards are simulated, there is nothing to keep anybody to."""
    squads: SquadQuota | None = None
    """The same, where parts are enforced."""
    absence: str = ""
    """Why they are not."""


def make_sharing(
    config: SharingConfig, home: Path, cards: Sequence[Card], simulated: bool, policy_of: Callable[[str], str]
) -> Sharing:
    """Nothing is started here: a card's daemon comes with its first tenant. Without the library jobs run all the same,
    and are told that nobody keeps them to their parts."""
    if simulated:
        return Sharing(absence="the cards are simulated")
    if not config.enforce:
        return _written_down(home, "sharing.enforce is false in config.toml")
    settings = Settings(
        folder=folder_of(home, _path(config.folder)), library_folder=_path(config.library_folder),
        policy=policy_of, strangers=config.strangers, has_mps=config.mps != "off", idle_s=config.idle_s,
        uuid_of=physical, fail_open_ms=config.fail_open_ms, context_bytes=config.context_bytes,
    )  # fmt: skip
    try:
        library_for_tenants(settings)
    except (Invalid, OSError) as error:
        return _written_down(home, str(error))
    squads = SquadQuota(settings, cards)
    return Sharing(squads, squads)


def folder_of(home: Path, below: Path | None = None) -> Path:
    """Of the cards' shared memory: each service has its own, for what one does not know it clears away. With a name
    that is short enough for sockets."""
    mark = hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:8]
    return (below or default_folder(home)) / mark


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


def _written_down(home: Path, why: str) -> Sharing:
    _log.warning(NOT_KEPT, because=why)
    return Sharing(QuotaFile(home / QUOTAS_FOLDER), None, f"{NOT_KEPT}: {why}")


class Tended(Protocol):
    """``SquadQuota``, as far as this has to know it."""

    def tend(self) -> None: ...
    def held(self, card_id: str) -> Mapping[str, Collection[int]]: ...
    def processes(self, card_id: str, listed: Sequence[Stranger], ours: Sequence[int]) -> Sequence[int]: ...


class SquadWatch:
    """With each sample: daemons that died are started again, and all are told who is on their cards; people hear of
    each stranger once.

    In a thread of its own: a daemon that does not answer must not hold up the samples. What comes while it is busy is
    left out, for the next sample says it again.
    """

    def __init__(self, squads: Tended, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._squads, self._clock_s = squads, clock_s
        self._unheld_since_s: dict[tuple[str, int], float] = {}
        """Processes of jobs, by card and pid, that have a part there and have not loaded the library."""
        self._unheld_now: frozenset[tuple[str, int]] = frozenset()
        """Those of them that had the time to."""
        self._heard: queue.Queue[Mapping[str, Any] | None] = queue.Queue(maxsize=1)
        self._told: set[tuple[str, int]] = set()
        self._seen: dict[str, Collection[int]] = {}
        """By card, what was listed there when it last told."""
        self._thread = threading.Thread(target=self._run, name="gpusquad-squads", daemon=True)
        self._thread.start()

    def hear(self, message: Mapping[str, Any]) -> None:
        """One message of the agent, whatever it is."""
        if message.get("kind") == "samples" and not self._heard.full():
            self._heard.put(message)

    def marked(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same message of the agent, with those processes of jobs marked that nothing holds, as last seen."""
        unheld = self._unheld_now
        if message.get("kind") != "samples" or not unheld:
            return message
        return {**message, "cards": [_marked(card, unheld) for card in message["cards"]]}

    def close(self) -> None:
        with contextlib.suppress(queue.Full):  # then it waits for a daemon, and ends with the service
            self._heard.put(None, timeout=_CLOSE_S)
            self._thread.join(_CLOSE_S)

    def see(self, message: Mapping[str, Any]) -> None:
        """What one sample says of strangers."""
        by_card = _listed(message["cards"])
        found = {
            (card, pid): listed[pid]
            for card, listed in by_card.items()
            for pid in self._strangers(card, listed)
            if pid in listed
        }
        self._seen |= {card: frozenset(listed) for card, listed in by_card.items()}
        for (card, pid), process in found.items():
            if (card, pid) not in self._told:
                about = {name: process.get(name) for name in ("name", "memory_bytes")}
                if process.get("job") is not None:
                    about["job"] = process["job"]
                what = "is no job" if process.get("job") is None else "runs without the library, though of a job"
                _log.warning(f"a process on a shared card {what}, so nothing holds it", card=card, pid=pid, **about)
        self._told = set(found)

    def _run(self) -> None:
        while (message := self._heard.get()) is not None:
            try:
                self._squads.tend()
                self.see(message)
            except Exception:
                _log.exception("the processes on the cards could not be looked at")

    def _strangers(self, card: str, listed: Mapping[int, Mapping[str, Any]]) -> Sequence[int]:
        rows = [Stranger(pid, p.get("name") or "", p.get("memory_bytes") or 0) for pid, p in listed.items()]
        unheld = self._unheld(card, listed)
        ours = [pid for pid, process in listed.items() if is_harmless(process) or self._is_ours(card, process, unheld)]
        return self._squads.processes(card, rows, ours)

    def _is_ours(self, card: str, process: Mapping[str, Any], unheld: Collection[int]) -> bool:
        """Or may be: one that was not there a moment ago can be of a job that has just begun."""
        pid = process["pid"]
        return pid not in self._seen.get(card, {pid}) if process.get("job") is None else pid not in unheld

    def _unheld(self, card: str, listed: Mapping[int, Mapping[str, Any]]) -> set[int]:
        """Of jobs with a part of the card: processes on it that have not loaded the library, and had the time to."""
        held: dict[str, set[int]] = {}
        for tenant, pids in self._squads.held(card).items():
            held.setdefault(tenant.rpartition("/")[0], set()).update(pids)
        now_s, before = self._clock_s(), self._unheld_since_s
        since_s = {
            pid: before.get((card, pid), now_s)
            for pid, process in listed.items()
            if (pids := held.get(f"{process.get('job')}.{process.get('attempt')}")) is not None
            and pid not in pids
            and inner_pid(pid) not in pids
        }
        others = {key: at_s for key, at_s in before.items() if key[0] != card}
        self._unheld_since_s = others | {(card, pid): at_s for pid, at_s in since_s.items()}
        late = {key for key, at_s in self._unheld_since_s.items() if now_s - at_s >= GRACE_S}
        self._unheld_now = frozenset(late)
        return {pid for on, pid in late if on == card}


def _marked(card: Mapping[str, Any], unheld: Collection[tuple[str, int]]) -> Mapping[str, Any]:
    here, processes = physical(card["id"]), card.get("processes") or ()
    if not any((here, process["pid"]) in unheld for process in processes):
        return card
    return {**card, "processes": [{**one, UNHELD: (here, one["pid"]) in unheld} for one in processes]}


def inner_pid(pid: int) -> int:
    """What a process in a namespace of its own takes for its pid: the library writes down that one."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return pid
    return next((int(line.split()[-1]) for line in status.splitlines() if line.startswith("NSpid:")), pid)


def _listed(cards: Sequence[Mapping[str, Any]]) -> dict[str, dict[int, Mapping[str, Any]]]:
    """Physical card -> its processes by pid: none are some too, for strangers leave. Of a card that does not tell,
    nothing."""
    found: dict[str, dict[int, Mapping[str, Any]]] = {}
    for card in cards:
        if (processes := card.get("processes")) is not None:
            found.setdefault(physical(card["id"]), {}).update((process["pid"], process) for process in processes)
    return found
