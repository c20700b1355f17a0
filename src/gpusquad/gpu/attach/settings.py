"""Settings of card sharing, with defaults for one machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from gpusquad.gpu.daemon.unmanaged import RULES, Rule
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid
from gpusquad.model.sm_groups import sm_groups
from gpusquad.model.squad import MAX_GROUPS

Where = Literal["process", "container"]
LEAST_FAIL_OPEN_MS, MAX_FAIL_OPEN_MS = 500, 3_600_000
"""A daemon sends a heartbeat four times a second. Below two heartbeats, clients would fail open beside a working
one."""
MAX_CONTEXT_BYTES = 16 << 30
ContextBytes = int | Literal["auto"]


def checked_fail_open_ms(value: int) -> int:
    if value != 0 and not LEAST_FAIL_OPEN_MS <= value <= MAX_FAIL_OPEN_MS:
        cure = f"use {LEAST_FAIL_OPEN_MS} to {MAX_FAIL_OPEN_MS}, or 0 to let clients wait for the daemon"
        raise Invalid("fail_open_ms", f"{value} is out of range", cure)
    return value


def checked_context_bytes(value: object) -> ContextBytes:
    """From a number or its text."""
    if value == "auto":
        return "auto"
    bytes_ = int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else -1
    if not 0 <= bytes_ <= MAX_CONTEXT_BYTES:
        cure = f"use auto, or 0 to {MAX_CONTEXT_BYTES}; 0: contexts are not charged"
        raise Invalid("context_bytes", f"{value} is out of range", cure)
    return bytes_


def default_folder(home: Path | None = None) -> Path:
    """Folder of the cards' folders, on a tmpfs, because they are shared memory. Root: ``/run``. Others: the session's
    runtime folder, otherwise ``home`` of the service, which may be a slower disk."""
    if os.geteuid() == 0:
        return Path("/run/gpusquad")
    given = os.environ.get("XDG_RUNTIME_DIR")
    return Path(given) / "gpusquad" if given else (home or Path.home() / ".gpusquad") / "run"


@dataclass(frozen=True)
class CardSharingSettings:
    """Settings for all cards of a machine or node."""

    folder: Path = field(default_factory=default_folder)
    """Contains ``cards/<id>`` for each card."""
    where: Where = "process"
    """``process``: clients are local processes and use environment variables. ``container``: clients use mounts."""
    policy: str | Callable[[str], str] = "equal"
    """Divide policy of a card (by id) until one is set for it."""
    strict: bool = True
    """Do not start a client whose share cannot be enforced. False: start it without, with a warning."""
    uuid_of: Callable[[str], str] = str
    """Maps a card id to the driver's UUID."""
    groups_of: Callable[[Card], int] = lambda card: min(sm_groups(card.sms), MAX_GROUPS)
    """Number of groups of 8 SMs into which the driver splits a card. It leaves some SMs out; how many is only known by
    trying. The default is conservative."""
    idle_s: float = 600.0
    """Time without a client after which a daemon ends. The next client starts one again."""
    starts_within_s: float = 60.0
    fail_open_ms: int = 1000
    """Time without a heartbeat after which clients run ungated. 0: they wait."""
    context_bytes: ContextBytes = "auto"
    """Memory charged for the first context of each process. ``auto``: as measured on its card."""
    strangers: Rule = "report"
    coefficients: Path | None = None
    """Measured interference: ``{"own": {"other": 0.3}}``."""
    has_mps: bool = True
    """False: ``shared`` clients are time-sliced as well."""
    second_wall_bytes: int | None = None
    """MPS refuses memory this far above a client's quota, in case a program bypasses the shim. None: no MPS limit."""
    library: Path | None = None
    """The shim. None: that of this package, built at first use."""
    library_folder: Path | None = None
    """Folder for a copy that clients of any user can load. For containers it must be on the node, and not on a file
    system mounted ``noexec``, as ``/run`` often is. None: ``/var/lib/gpusquad/lib`` for root, otherwise no copy."""
    shm: Path | None = None
    """Folder of the node that containers get as ``/dev/shm``, which the MPS server and its clients must share."""

    def __post_init__(self) -> None:
        if self.strangers not in RULES:
            raise Invalid("strangers", f"{self.strangers!r} is unknown", f"choose from {', '.join(RULES)}")
        if self.where not in ("process", "container"):
            raise Invalid("where", f"{self.where!r} is unknown", "use process or container")
        checked_fail_open_ms(self.fail_open_ms)
        checked_context_bytes(self.context_bytes)

    def card_folder(self, card_id: str) -> Path:
        if card_id in ("", ".", ".."):
            raise Invalid("card", f"{card_id!r} is not a card id")
        return self.folder / "cards" / quote(card_id, safe="")

    def policy_for(self, card_id: str) -> str:
        return self.policy if isinstance(self.policy, str) else self.policy(card_id)
