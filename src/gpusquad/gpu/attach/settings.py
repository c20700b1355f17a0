"""What can be chosen about sharing cards, with defaults that suit one machine."""

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
LEAST_FAIL_OPEN_MS, MOST_FAIL_OPEN_MS = 500, 3_600_000
"""A daemon that is well shows it four times a second: with less than two of these, tenants would run on beside it."""
MOST_CONTEXT_BYTES = 16 << 30
ContextBytes = int | Literal["auto"]


def checked_fail_open_ms(value: int) -> int:
    if value != 0 and not LEAST_FAIL_OPEN_MS <= value <= MOST_FAIL_OPEN_MS:
        cure = f"use {LEAST_FAIL_OPEN_MS} to {MOST_FAIL_OPEN_MS}, or 0: then they wait for a daemon that has gone"
        raise Invalid("fail_open_ms", f"{value} is no time after which tenants run on", cure)
    return value


def checked_context_bytes(value: object) -> ContextBytes:
    """From a number, or from what somebody wrote."""
    if value == "auto":
        return "auto"
    bytes_ = int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else -1
    if not 0 <= bytes_ <= MOST_CONTEXT_BYTES:
        cure = f"use auto, or 0 to {MOST_CONTEXT_BYTES}; 0: contexts are not charged"
        raise Invalid("context_bytes", f"{value} is nothing that a context costs", cure)
    return bytes_


def default_folder(home: Path | None = None) -> Path:
    """Where the cards' folders are: on a tmpfs, for they are shared memory. Root: ``/run``; others: what the session
    gives them, else ``home`` (the service's), which may be a disk: slower, never wrong."""
    if os.geteuid() == 0:
        return Path("/run/gpusquad")
    given = os.environ.get("XDG_RUNTIME_DIR")
    return Path(given) / "gpusquad" if given else (home or Path.home() / ".gpusquad") / "run"


@dataclass(frozen=True)
class CardSharingSettings:
    """For all cards of a machine or node."""

    folder: Path = field(default_factory=default_folder)
    """Below it ``cards/<id>`` for each card."""
    where: Where = "process"
    """``process``: tenants are started here and told by their environment. ``container``: told by mounts."""
    policy: str | Callable[[str], str] = "equal"
    """How a card (its id) is divided until somebody says otherwise for that card."""
    strict: bool = True
    """A tenant that cannot be kept to its part is not started. False: it is started without, and a warning says so."""
    uuid_of: Callable[[str], str] = str
    """What the driver calls a card."""
    groups_of: Callable[[Card], int] = lambda card: min(sm_groups(card.sms), MAX_GROUPS)
    """Into how many groups of 8 SMs the driver splits a card. It leaves some over, and how many is only known where it
    was tried; the default is careful."""
    idle_s: float = 600.0
    """A daemon that has had no tenant for so long ends; the next tenant starts one again."""
    starts_within_s: float = 60.0
    fail_open_ms: int = 1000
    """Tenants whose daemon has been silent for so long run on as if nobody divided the card. 0: they wait."""
    context_bytes: ContextBytes = "auto"
    """Charged to a tenant for a process's first context. ``auto``: as measured on its card."""
    strangers: Rule = "report"
    coefficients: Path | None = None
    """What tenants cost each other, as measured: ``{"own": {"other": 0.3}}``."""
    has_mps: bool = True
    """False: ``shared`` tenants are time sliced as well."""
    second_wall_bytes: int | None = None
    """MPS is told to refuse what is so much over a tenant's quota, in case a program goes past our library. None: it is
    not told."""
    library: Path | None = None
    """The library for tenants. None: the one of this package, built at first use."""
    library_folder: Path | None = None
    """Where a copy is put that tenants of any user can load: on the node itself for containers, and not on a file
    system mounted ``noexec``, as ``/run`` often is. None: ``/var/lib/gpusquad/lib`` for root, else no copy."""
    shm: Path | None = None
    """The node's folder that containers get as ``/dev/shm``: MPS needs one that its server and its clients share."""

    def __post_init__(self) -> None:
        if self.strangers not in RULES:
            raise Invalid("strangers", f"{self.strangers!r} is not known", f"choose from {', '.join(RULES)}")
        if self.where not in ("process", "container"):
            raise Invalid("where", f"{self.where!r} is not known", "use process or container")
        checked_fail_open_ms(self.fail_open_ms)
        checked_context_bytes(self.context_bytes)

    def card_folder(self, card_id: str) -> Path:
        if card_id in ("", ".", ".."):
            raise Invalid("card", f"{card_id!r} is no name of a card")
        return self.folder / "cards" / quote(card_id, safe="")

    def policy_for(self, card_id: str) -> str:
        return self.policy if isinstance(self.policy, str) else self.policy(card_id)
