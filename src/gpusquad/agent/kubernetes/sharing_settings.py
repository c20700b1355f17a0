"""How containers are kept to their parts of cards: by a library that all of their programs load, or by their word."""

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

Mode = Literal["enforce", "write-down"]
MODES: tuple[Mode, ...] = get_args(Mode)
FOLDER = Path("/run/gpusquad")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SharingSettings:
    """What a user can choose about it. All folders are the node's, at the same path for us: containers get files out
    of them mounted."""

    mode: Mode = "write-down"
    folder: Path = FOLDER
    """Of the cards' shared memory: on a tmpfs, for it is written to all the time."""
    policy: str = "equal"
    shm: Path | None = None
    """What containers get as ``/dev/shm``, and we have there: clients of MPS find its server by it. None: they keep
    their own."""
    has_mps: bool = False
    """Containers of the class ``shared`` run at once. False: they take turns, as the isolated ones do."""
    fail_open_ms: int = AttachSettings.fail_open_ms
    """Containers whose card's daemon has been silent for so long run on as if alone. 0: they wait for it."""
    strangers: Rule = AttachSettings.strangers
    """What follows from processes on a card that nothing holds."""
    context_bytes: ContextBytes = AttachSettings.context_bytes
    """Charged for the CUDA context of each of a container's processes. ``auto``: as measured on its card."""


def quotas_of(
    sharing: SharingSettings, folder: Path, cards: Sequence[CardInfo], policies: CardPolicies
) -> list[CardSharing]:
    """``folder`` outlives a boot of the node. The limits are written down in either case: programs may want to know."""
    written: list[CardSharing] = [QuotaFile(folder=folder / "quota")]
    if sharing.mode == "write-down":
        return written
    sharing.folder.mkdir(parents=True, exist_ok=True)
    # What is in it may be written to by whoever has it mounted; nobody else on the node has any business there.
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
    except (Invalid, OSError) as error:  # whole cards can be had without it; who wants a part is told the same
        _log.error("no part of a card can be had: %s", error)
    squads = SquadQuota(settings, [card_of(card) for card in cards])
    policies.use(squads)
    return [*written, squads]


def _boot_id() -> str:
    """In the path of all that is mounted: the kubelet may start containers of before a reboot without asking us again,
    with the mounts they had. They must not find files of others there."""
    return Path("/proc/sys/kernel/random/boot_id").read_text()


def card_of(facts: CardInfo) -> Card:
    return Card(facts.id, facts.model, facts.memory_bytes, facts.sms, facts.domain)
