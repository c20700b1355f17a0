"""How whoever starts a container makes it keep to its part of a card.

The agent calls ``attach`` when a container is given its cards and adds the answer to it. The default only says what the
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
from gpusquad.model.units import WHOLE_MILLI

QUOTA_PATH = "/run/gpusquad/quota.json"
"""Where a container finds its limits."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the part: one container of one pod."""

    pod: str
    """The pod's uid: names come again."""
    namespace: str
    name: str
    container: str
    job: str = ""


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


class Quota(Protocol):
    """Keeps containers to their parts."""

    def attach(self, cards: Sequence[Card], holder: Holder, share: Share | None) -> Attachment:
        """Called before the container exists; again for the same holder it answers the same. None: whole cards."""
        ...

    def forget_all_but(self, pods: set[str]) -> None:
        """These pods (uids) still exist; what was kept for others is not needed any more."""
        ...


class QuotaFile:
    """The default: limits written down, enforced by nobody yet. Each holder has a file in the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def attach(self, cards: Sequence[Card], holder: Holder, share: Share | None) -> Attachment:
        folder = self._folder / holder.pod
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{holder.container}.json"
        whole = {"job": holder.job, "pod": holder.pod, "container": holder.container}
        content = {**whole, "cards": [limits(card, share) for card in cards]}
        draft = file.with_suffix(".new")
        draft.write_text(json.dumps(content) + "\n", encoding="utf-8")
        draft.chmod(0o444)
        os.replace(draft, file)  # never half of it
        return Attachment(mounts=(Mount(QUOTA_PATH, str(file)),))

    def forget_all_but(self, pods: set[str]) -> None:
        for folder in self._folder.glob("*/"):
            if folder.name not in pods:
                for file in folder.iterdir():
                    file.unlink(missing_ok=True)
                folder.rmdir()


def limits(card: Card, share: Share | None) -> dict[str, object]:
    """What a holder may use of the card. Without a share: all of it; a part that is not named is not limited."""
    memory_bytes = share.memory_bytes if share is not None and share.memory_bytes else card.memory_bytes
    sm_milli = share.sm_milli if share is not None and share.sm_milli else WHOLE_MILLI
    return {"card": card.id, "memory_bytes": memory_bytes, "sm_milli": sm_milli}
