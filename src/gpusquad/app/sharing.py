"""Shared cards of this machine: enforcement of shares, and unmanaged processes."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from gpusquad.app.config import SharingConfig
from gpusquad.gpu.api import CardSharing, NoSharing, QuotaFile
from gpusquad.gpu.attach.library import client_library
from gpusquad.gpu.attach.quota import SquadQuota
from gpusquad.gpu.attach.settings import CardSharingSettings, default_folder
from gpusquad.gpu.attach.unmanaged import Key, ListedProcess, UnmanagedWatch
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid
from gpusquad.model.virtual import physical
from gpusquad.server.services.cluster.agent_watch import UNHELD, unmanaged_process

QUOTAS_FOLDER = "quotas"
NOT_ENFORCED = "shares are not enforced"
_log = structlog.get_logger("gpusquad.sharing")


def make_sharing(
    config: SharingConfig, home: Path, cards: Sequence[Card], simulated: bool, policy_of: Callable[[str], str]
) -> CardSharing:
    """Starts nothing: a card daemon starts with its first GPU client. Without the library jobs still run, and their
    events record that shares are not enforced."""
    if simulated:
        return NoSharing("the cards are simulated")
    if not config.enforce:
        return _recorded_only(home, "sharing.enforce is false in config.toml")
    settings = CardSharingSettings(
        folder=folder_of(home, _path(config.folder)), library_folder=_path(config.library_folder),
        policy=policy_of, strangers=config.unmanaged, has_mps=config.mps != "off", idle_s=config.idle_s,
        uuid_of=physical, fail_open_ms=config.fail_open_ms, context_bytes=config.context_bytes,
    )  # fmt: skip
    try:
        client_library(settings)
    except (Invalid, OSError) as error:
        return _recorded_only(home, str(error))
    return SquadQuota(settings, cards)


def folder_of(home: Path, below: Path | None = None) -> Path:
    """Folder of the cards' shared memory. Each service has its own, because it deletes what it does not know. The name
    is short enough for socket paths."""
    mark = hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:8]
    return (below or default_folder(home)) / mark


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


def _recorded_only(home: Path, why: str) -> CardSharing:
    _log.warning(NOT_ENFORCED, because=why)
    return QuotaFile(f"{NOT_ENFORCED}: {why}", folder=home / QUOTAS_FOLDER)


class SquadWatch(UnmanagedWatch[Mapping[str, Any]]):
    """On each sample of the agent, restarts dead card daemons and sends each the processes on its card."""

    def __init__(self, sharing: CardSharing, clock_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(sharing, _on_cards, _log_unmanaged, clock_s)

    def hear(self, look: Mapping[str, Any]) -> None:
        """Handle one message of the agent; only samples matter."""
        if look.get("kind") == "samples":
            super().hear(look)

    def see(self, look: Mapping[str, Any]) -> None:
        self._sharing.maintain()
        super().see(look)

    def marked(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """A copy of the agent's message that marks job processes without limits, as last seen."""
        unheld = self.unheld
        if message.get("kind") != "samples" or not unheld:
            return message
        return {**message, "cards": [_marked(card, unheld) for card in message["cards"]]}


def _marked(card: Mapping[str, Any], unheld: Collection[Key]) -> Mapping[str, Any]:
    here, processes = physical(card["id"]), card.get("processes") or ()
    if not any((here, process["pid"]) in unheld for process in processes):
        return card
    return {**card, "processes": [{**one, UNHELD: (here, one["pid"]) in unheld} for one in processes]}


def _on_cards(message: Mapping[str, Any]) -> dict[str, dict[int, ListedProcess]]:
    found: dict[str, dict[int, ListedProcess]] = {}
    for card in message["cards"]:
        if (processes := card.get("processes")) is not None:
            found.setdefault(physical(card["id"]), {}).update((one["pid"], _on_card(one)) for one in processes)
    return found


def _on_card(process: Mapping[str, Any]) -> ListedProcess:
    """Shares belong to attempts of jobs."""
    owner = f"{process['job']}.{process.get('attempt')}" if process.get("job") is not None else None
    return ListedProcess(unmanaged_process(process), owner)


def _log_unmanaged(card: str, one: ListedProcess) -> None:
    about = {"pid": one.process.pid, "name": one.process.name, "memory_bytes": one.process.memory_bytes}
    if one.owner is None:
        _log.warning("unmanaged process on a shared card: belongs to no job", card=card, **about)
    else:
        job = one.owner.rpartition(".")[0]
        message = "unmanaged process on a shared card: belongs to a job but runs without the shim"
        _log.warning(message, card=card, job=job, **about)
