"""What the engine remembers of an attempt while it watches it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpusquad.core.ports import Launch
from gpusquad.engines.local.names import Key
from gpusquad.engines.local.run_folder import RunFolder
from gpusquad.engines.local.shares import ShareEnvironment
from gpusquad.engines.local.stop_file import StopRequest

NONE = -1
"""In the place of a handle."""


@dataclass(slots=True, eq=False)
class Attempt:
    """Touched by the engine's loop only."""

    key: Key
    folder: RunFolder
    launch: Launch | None = field(default=None, repr=False)
    """Until its keeper is begun: secrets are kept no longer than needed."""
    order: bytes = field(default=b"", repr=False)
    """What its keeper has still to be told."""
    parts: ShareEnvironment | None = field(default=None, repr=False)
    """Of cards, once they were given; None where they were not, or nobody asked for any."""
    ports: list[int] = field(default_factory=list)
    tries: int = 0
    holds_slot: bool = False
    pidfd: int = NONE
    feed: int = NONE
    ready: int = NONE
    said_started: bool = False
    trouble: str = ""
    """Why its keeper could not start anything."""
    is_orphan: bool = False
    """The store does not know it, so nobody wants reports on it."""
    has_strays: bool = False
    """Processes of it were seen, whatever its run folder says."""
    stop: StopRequest | None = None
    """The first wish to stop it."""
    is_pausing: bool = False
    """Its keeper is told of that wish as soon as what its tasks have on cards is done."""

    @property
    def is_begun(self) -> bool:
        """It has a keeper."""
        return self.pidfd != NONE
