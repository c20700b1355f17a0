"""The ways in which a process can share a card. All are fixed when it starts, so each way is a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpusquad.gpu.mps import Mps, no_daemon_env

PLAIN = "plain"
"""Time slicing, or alone."""
MPS = "mps"
LOW = "mps-low"
"""Under MPS, with a client priority below the others'."""
FIXED = "fixed"
"""The library and a grant that is written once: static green contexts, under MPS."""
FIXED_LOW = "fixed-low"
"""The same, with a client priority below the others'."""
FIXED_ALONE = "fixed-alone"
"""The library and a grant that is written once, without MPS."""
SQUADS = "squads"
"""The library and the card's daemon, under MPS."""
SQUADS_LOW = "squads-low"
"""The same, with a client priority below the others'."""
SHIM = "shim"
"""The library without a region: it passes everything on."""
ALONE = "squads-alone"
"""The library and the card's daemon, without MPS."""
ASIDE = "squads-aside"
"""The same, beside others that are under MPS."""
BESIDE_LOW = "squads-low-beside"
"""The library and the card's daemon, under MPS with a lower client priority, beside others that are not."""
_PERCENT = "mps:"
_PRIORITY = "CUDA_MPS_CLIENT_PRIORITY"
_BELOW = "1"


@dataclass(frozen=True, slots=True, order=True)
class Seat:
    """One process: whose, and how it shares the card."""

    tenant: str
    way: str

    def __str__(self) -> str:
        return f"{self.tenant}-{self.way.replace(':', '')}"


def at_percent(percent: int) -> str:
    """Under MPS with this percentage of the SMs."""
    return f"{_PERCENT}{percent}"


def needs_mps(way: str) -> bool:
    return way in (MPS, LOW, FIXED, FIXED_LOW, SQUADS, SQUADS_LOW, BESIDE_LOW) or way.startswith(_PERCENT)


def needs_region(way: str) -> bool:
    """The region that the bench writes."""
    return way in (FIXED, FIXED_LOW, FIXED_ALONE)


def needs_daemon(way: str) -> bool:
    return way in (SQUADS, SQUADS_LOW, ALONE, ASIDE, BESIDE_LOW)


def company(way: str) -> str:
    """Clients that share a region, written by the bench or by a daemon. All under MPS, none under MPS, and a mix never
    run at the same time, and what is learned about a client in one of these does not apply to the others. Each
    therefore has its own region."""
    if way in (ASIDE, BESIDE_LOW):
        return "mixed"
    return "alone" if way in (FIXED_ALONE, ALONE) else "pool"


def environment(way: str, card: str, mps: Mps | None, library: Path | None, tenant: str = "") -> dict[str, str]:
    """Environment of a process. ``tenant``: path of its page."""
    if needs_mps(way):
        assert mps is not None
        percent = int(way.removeprefix(_PERCENT)) if way.startswith(_PERCENT) else 100
        found = mps.env(10 * percent)
    else:
        found = no_daemon_env(card)
    if way in (LOW, FIXED_LOW, SQUADS_LOW, BESIDE_LOW):
        found[_PRIORITY] = _BELOW
    if way == SHIM or needs_region(way) or needs_daemon(way):
        found["LD_PRELOAD"] = str(library)
    if tenant:
        found["GPUSQUAD_TENANT"] = tenant
    return found
