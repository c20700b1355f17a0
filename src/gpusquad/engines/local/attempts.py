"""What the engine knows of an attempt while it watches it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpusquad.core.ports import Launch
from gpusquad.engines.local.names import Key
from gpusquad.engines.local.run_folder import RunFolder
from gpusquad.engines.local.shares import ShareEnvironment
from gpusquad.engines.local.stop_file import StopRequest

NONE = -1
"""Placeholder for a missing handle."""


@dataclass(slots=True, eq=False)
class Attempt:
    """Used only in the engine's loop."""

    key: Key
    folder: RunFolder
    launch: Launch | None = field(default=None, repr=False)
    """Until the supervisor has started: secrets are kept no longer than needed."""
    order: bytes = field(default=b"", repr=False)
    """What the supervisor still has to be sent."""
    parts: ShareEnvironment | None = field(default=None, repr=False)
    """Environment of shared cards, once it was given. None: not given, or not requested."""
    ports: list[int] = field(default_factory=list)
    tries: int = 0
    holds_slot: bool = False
    pidfd: int = NONE
    feed: int = NONE
    ready: int = NONE
    said_started: bool = False
    trouble: str = ""
    """Why the supervisor could not start anything."""
    is_orphan: bool = False
    """The store does not know the attempt, so its reports are dropped."""
    has_orphans: bool = False
    """Processes of it were seen, whatever its run folder says."""
    stop: StopRequest | None = None
    """The first stop request."""
    is_pausing: bool = False
    """The supervisor gets that request as soon as the tasks' work on shared cards is finished."""

    @property
    def is_begun(self) -> bool:
        """Whether it has a supervisor."""
        return self.pidfd != NONE
