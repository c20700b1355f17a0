"""How shares of containers are enforced: by the preloaded library, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from gpusquad.agent.inventory import CardInfo
from gpusquad.agent.kubernetes.card_policies import CardPolicies
from gpusquad.gpu.api import CardSharing, QuotaFile
from gpusquad.gpu.attach.library import client_library
from gpusquad.gpu.attach.quota import SquadQuota
from gpusquad.gpu.attach.settings import CardSharingSettings as AttachSettings
from gpusquad.gpu.attach.settings import ContextBytes
from gpusquad.gpu.daemon.unmanaged import Rule
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid

Mode = Literal["enforce", "advisory"]
MODES: tuple[Mode, ...] = get_args(Mode)
OLD_MODES: dict[str, Mode] = {"write-down": "advisory"}
"""Deprecated names, which are accepted with a warning."""
FOLDER = Path("/run/gpusquad")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SharingSettings:
    """Options for sharing. All folders are the node's, at the same path for the agent, because files in them are
    mounted into containers."""

    mode: Mode = "advisory"
    """``enforce`` the shares, or pass them on without enforcing them (``advisory``)."""
    folder: Path = FOLDER
    """The cards' shared memory: on a tmpfs, because it is written constantly."""
    policy: str = "equal"
    shm: Path | None = None
    """Mounted as ``/dev/shm`` in containers, and the agent's own ``/dev/shm``: MPS clients find their server by it.
    None: containers keep their own."""
    has_mps: bool = False
    """Containers of the class ``shared`` run concurrently. False: they are time-sliced like isolated ones."""
    fail_open_ms: int = AttachSettings.fail_open_ms
    """Containers run ungated when their card's daemon has been silent for this many milliseconds. 0: they wait for
    it."""
    strangers: Rule = AttachSettings.strangers
    """Rule for unmanaged processes on a card."""
    context_bytes: ContextBytes = AttachSettings.context_bytes
    """Charged for the CUDA context of each process of a container. ``auto``: as measured on its card."""


def quotas_of(
    sharing: SharingSettings, folder: Path, cards: Sequence[CardInfo], policies: CardPolicies
) -> list[CardSharing]:
    """``folder`` outlives a boot of the node. The limits are written to files in either mode, for programs that read
    them."""
    written: list[CardSharing] = [QuotaFile(folder=folder / "quota")]
    if sharing.mode == "advisory":
        return written
    sharing.folder.mkdir(parents=True, exist_ok=True)
    # Containers may write to the files that they have mounted. No other process on the node needs access.
    sharing.folder.chmod(0o700)
    if sharing.shm is not None:
        sharing.shm.mkdir(exist_ok=True)
        sharing.shm.chmod(0o1777)
    settings = AttachSettings(
        folder=sharing.folder / f"boot-{_boot_id()[:8]}",
        where="container",
        policy=policies.policy_of,
        has_mps=sharing.has_mps,
        library_folder=folder / "lib",
        shm=sharing.shm,
        strangers=sharing.strangers,
        fail_open_ms=sharing.fail_open_ms,
        context_bytes=sharing.context_bytes,
    )
    try:
        client_library(settings)  # now, not while the kubelet waits
    except (
        Invalid,
        OSError,
    ) as error:  # whole cards work without it; a container with a share is refused with this error
        _log.error("cannot share cards: %s", error)
    squads = SquadQuota(settings, [card_of(card) for card in cards])
    policies.use(squads)
    return [*written, squads]


def _boot_id() -> str:
    """Part of all mounted paths. After a reboot the kubelet may start old containers without calling the plugin again,
    with their old mounts. They must not find files of other containers there."""
    return Path("/proc/sys/kernel/random/boot_id").read_text()


def card_of(facts: CardInfo) -> Card:
    return Card(facts.id, facts.model, facts.memory_bytes, facts.sms, facts.domain)
