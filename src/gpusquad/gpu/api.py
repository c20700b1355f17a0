"""How whoever starts a tenant makes it keep to its part of a card.

The engine of a machine and the agent of a node call ``attach`` when a task or container is given its cards and add the
answer to it. On real cards ``attach.quota.SquadQuota`` keeps tenants to their parts. The default only says what the
limits are, in a file that the container cannot change or leave behind, as it could an environment variable.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gpusquad.model.cluster import Card
from gpusquad.model.job import Share
from gpusquad.model.sharing_params import SharingParams
from gpusquad.model.units import WHOLE_MILLI

QUOTA_PATH = "/run/gpusquad/quota.json"
"""Where a container finds its limits."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the part: one container of a pod, or one task of an attempt on this machine."""

    owner: str
    """What lives and ends as a whole: the pod's uid (names come again), or job and attempt."""
    part: str
    """Of the owner: the container's name, or the task's index."""
    job: str = ""
    run_as: tuple[int, int] | None = None
    """User and group id of its processes. None: those of whoever starts it."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder of the node that the container sees."""

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
    """What a container needs besides its cards."""

    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    notes: tuple[str, ...] = ()
    """What people should know: a part of what was asked for that it does not get, and why."""


class Quota(Protocol):
    """Keeps tenants to their parts of cards."""

    def attach(
        self, cards: Sequence[Card], holder: Holder, share: Share | None, sharing_params: SharingParams
    ) -> Attachment:
        """Called before the tenant exists; again for the same holder it answers the same. No share: whole cards."""
        ...

    def change(self, holder: Holder, sharing_params: SharingParams) -> None:
        """Its goal, weight or priority is another now. Nothing happens if it is not known."""
        ...

    def forget_all_but(self, owners: set[str]) -> None:
        """These still exist; what was kept for others is not needed any more."""
        ...


class QuotaFile:
    """The default: limits written down, enforced by nobody yet. Each holder has a file in the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def attach(
        self, cards: Sequence[Card], holder: Holder, share: Share | None, sharing_params: SharingParams
    ) -> Attachment:
        folder = self._folder / holder.owner
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
        os.replace(draft, file)  # never half of it
        return Attachment(mounts=(Mount(QUOTA_PATH, str(file)),))

    def change(self, holder: Holder, sharing_params: SharingParams) -> None:
        """Nothing of it is in the file."""

    def forget_all_but(self, owners: set[str]) -> None:
        for folder in self._folder.glob("*/"):
            if folder.name not in owners:
                for file in folder.iterdir():
                    file.unlink(missing_ok=True)
                folder.rmdir()


def limits(card: Card, share: Share | None) -> dict[str, object]:
    """What a holder may use of the card. Without a share: all of it. Of the SMs, no part named is no limit."""
    memory_bytes = share.memory_on(card.memory_bytes) if share is not None and not share.is_slot_only else 0
    sm_milli = share.sm_milli if share is not None and share.sm_milli else WHOLE_MILLI
    return {"card": card.id, "memory_bytes": memory_bytes or card.memory_bytes, "sm_milli": sm_milli}
