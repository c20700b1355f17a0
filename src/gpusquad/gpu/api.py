"""Interface between card sharing and the code that starts GPU clients: the local engine and the node agent.

They call ``CardSharing.attach`` before a task or container starts and apply the answer to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gpusquad.gpu.daemon.unmanaged import UnmanagedProcess
from gpusquad.model.cluster import Card
from gpusquad.model.job import Share
from gpusquad.model.sharing_params import SharingParams
from gpusquad.model.units import WHOLE_MILLI

QUOTA_PATH = "/run/gpusquad/quota.json"
"""Path of the limits in a container."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Identity of a GPU client: one container of a pod, or one task of an attempt on this machine."""

    owner: str
    """What starts and ends as a whole: the pod's uid (names are reused), or job and attempt."""
    part: str
    """Within the owner: the container's name, or the task's index."""
    job: str = ""
    run_as: tuple[int, int] | None = None
    """User and group id of its processes. None: those of the caller."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the node, mounted into the container."""

    inside: str
    outside: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device of the node that the container may use."""

    inside: str
    outside: str
    permissions: str = "rw"


@dataclass(frozen=True, slots=True)
class Attachment:
    """What a client needs besides its cards."""

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    notes: tuple[str, ...] = ()
    """For users: which part of the request is not granted, and why."""


class CardSharing(Protocol):
    """Limits the GPU clients of shared cards to their shares. May be called from several threads; calls may block.

    ``attach.quota.SquadQuota`` enforces shares. ``QuotaFile`` writes them down. ``NoSharing`` does nothing.
    """

    @property
    def absence(self) -> str:
        """Why shares are not enforced here. Empty: they are."""
        ...

    # -- clients: unknown holders are ignored ------------------------------------------------------------------------

    def attach(
        self, cards: Sequence[Card], holder: Holder, share: Share | None, sharing_params: SharingParams
    ) -> Attachment:
        """What the client needs to use its share. Called before the client starts; a repeated call for the same holder
        returns the same answer. ``share`` None: whole cards."""
        ...

    def change(self, holder: Holder, sharing_params: SharingParams) -> None:
        """Apply another SLO, weight or priority."""
        ...

    def resize(self, holder: Holder, memory_bytes: int) -> None:
        """Change the memory quota of a running client. Raises Invalid if the client holds more."""
        ...

    def peak_memory_bytes(self, holder: Holder) -> int:
        """Most memory that the client has held since it was attached. 0: none, or unknown."""
        ...

    def is_pooled(self, holder: Holder) -> bool:
        """True: the client is in an MPS pool, where killing it can affect its neighbours."""
        ...

    def pause(self, holders: Sequence[Holder], within_s: float) -> bool:
        """Before SIGTERM: block launches of pooled clients and wait for their queued work. True: none was left."""
        ...

    def drain(self, holder: Holder, pids: Collection[int] = (), within_s: float = 5.0) -> bool:
        """Before SIGKILL: block launches of the client and wait for its queued work. True: none was left."""
        ...

    def release_all_but(self, owners: set[str]) -> None:
        """Release what clients of all other owners hold."""
        ...

    # -- cards -------------------------------------------------------------------------------------------------------

    def maintain(self) -> None:
        """Restart daemons and MPS pools that failed while they had clients."""
        ...

    def set_policy(self, card_id: str, policy: str | None) -> str:
        """Set the divide policy of a card and return the one in effect. None: the default of the settings."""
        ...

    def policies(self) -> Mapping[str, str]:
        """Divide policy by card id, for all known cards."""
        ...

    def status(self, card_id: str) -> Mapping[str, Any]:
        """State of the card. ``running``: it has a daemon."""
        ...

    def silence(self, card_id: str) -> str:
        """Message that the card's daemon did not answer the last call. Empty: it did, or there is none."""
        ...

    def report_processes(
        self, card_id: str, listed: Iterable[UnmanagedProcess], ours: Collection[int]
    ) -> Sequence[int]:
        """Give the daemon all processes on the card and the pids of clients among them. Returns the unmanaged pids."""
        ...

    def client_pids(self, card_id: str) -> Mapping[str, Collection[int]]:
        """Processes that loaded the shim, by client (``owner/part``), as numbered in their own pid namespace."""
        ...


@dataclass(frozen=True)
class NoSharing:
    """A ``CardSharing`` without cards: nothing is enforced."""

    absence: str = "jobs that share a card are not kept to their parts here"

    def attach(
        self, cards: Sequence[Card], holder: Holder, share: Share | None, sharing_params: SharingParams
    ) -> Attachment:
        return Attachment()

    def change(self, holder: Holder, sharing_params: SharingParams) -> None:
        pass

    def resize(self, holder: Holder, memory_bytes: int) -> None:
        pass

    def peak_memory_bytes(self, holder: Holder) -> int:
        return 0

    def is_pooled(self, holder: Holder) -> bool:
        return False

    def pause(self, holders: Sequence[Holder], within_s: float) -> bool:
        return True

    def drain(self, holder: Holder, pids: Collection[int] = (), within_s: float = 5.0) -> bool:
        return True

    def release_all_but(self, owners: set[str]) -> None:
        pass

    def maintain(self) -> None:
        pass

    def set_policy(self, card_id: str, policy: str | None) -> str:
        return ""

    def policies(self) -> Mapping[str, str]:
        return {}

    def status(self, card_id: str) -> Mapping[str, Any]:
        return {"card": card_id, "running": False}

    def silence(self, card_id: str) -> str:
        return ""

    def report_processes(
        self, card_id: str, listed: Iterable[UnmanagedProcess], ours: Collection[int]
    ) -> Sequence[int]:
        return ()

    def client_pids(self, card_id: str) -> Mapping[str, Collection[int]]:
        return {}


@dataclass(frozen=True)
class QuotaFile(NoSharing):
    """Writes the limits of each client to a file and enforces none."""

    folder: Path = field(kw_only=True)

    def attach(
        self, cards: Sequence[Card], holder: Holder, share: Share | None, sharing_params: SharingParams
    ) -> Attachment:
        folder = self.folder / holder.owner
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{holder.part}.json"
        content = {
            "job": holder.job,
            "owner": holder.owner,
            "part": holder.part,
            "cards": [limits(card, share) for card in cards],
        }
        draft = file.with_suffix(".new")
        draft.write_text(json.dumps(content) + "\n", encoding="utf-8")
        draft.chmod(0o444)
        os.replace(draft, file)  # atomic
        return Attachment(mounts=(Mount(QUOTA_PATH, str(file)),))

    def release_all_but(self, owners: set[str]) -> None:
        for folder in self.folder.glob("*/"):
            if folder.name not in owners:
                for file in folder.iterdir():
                    file.unlink(missing_ok=True)
                folder.rmdir()


def limits(card: Card, share: Share | None) -> dict[str, object]:
    """Limits of a client on the card. Without a share: the whole card. Without ``sm``: all SMs."""
    memory_bytes = share.memory_on(card.memory_bytes) if share is not None and not share.is_slot_only else 0
    sm_milli = share.sm_milli if share is not None and share.sm_milli else WHOLE_MILLI
    return {"card": card.id, "memory_bytes": memory_bytes or card.memory_bytes, "sm_milli": sm_milli}
