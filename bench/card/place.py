"""Where the bench measures, and the error for a missing part."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class Lost(RuntimeError):
    """A process, or something that it needs, is missing."""


@dataclass(frozen=True, slots=True)
class Place:
    """The card, and how it is divided."""

    card: str = "0"
    device: str = "cuda"
    groups: int = 15
    sms_per_group: int = 8
    sms: int = 132
    memory_bytes: int = 0
    logs: Path | None = None
    module: str = "bench.card.tenant"
    """Module that client processes run."""
