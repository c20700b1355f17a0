"""How much is told, and how fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Assigned = Literal["none", "gang", "pod"]


@dataclass(frozen=True)
class StatusSettings:
    """The defaults cost an API server next to nothing, however many pods wait."""

    per_second: float = 10.0
    """Writes of this kind, all pods together. 0: nothing is told."""
    burst: float = 50.0
    """After a rest, so many at once: where little happens, everything is told at once."""
    every_s: float = 60.0
    """The same thing with other numbers is told to a pod no more often than this."""
    repeat_s: float = 300.0
    """The very same is told again after this long: events are forgotten by the server after an hour."""
    flap_s: float = 5.0
    """Two different things are told to a pod no faster than this."""
    most_unimportant: int = 1000
    """Normal events that may wait to be written; more are not told. Warnings are always told."""
    assigned: Assigned = "gang"
    """Which pods get the event ``Scheduled``: none, the first of each gang, or all."""
    in_flight: int = 4
