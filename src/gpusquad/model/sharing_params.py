"""What a tenant of a shared card is worth and wants, as the cluster tier knows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpusquad.model.job import Slo


@dataclass(frozen=True, slots=True)
class SharingParams:
    """It may change while the tenant runs."""

    weight: float = 1.0
    priority: int = 0
    slo: Slo | None = None
    remaining_us: int | None = None
    """Work still to do, alone on the whole card. None: not known."""
    memory_bytes: int | None = None
    """That it may hold of its card. None: as when it started."""
    app: str = ""
    """What it runs, by the name under which something is known of it; empty: nothing is."""
    curve: tuple[tuple[int, float], ...] = ()
    """Thousandths of the SMs, and its speed alone with them over that with all; empty: not measured."""
    solo_per_s: float = 0.0
    """Steps or requests a second alone on the whole card, as measured; 0: not measured."""
    rate_beside: Mapping[str, float] = field(default_factory=dict)
    """Its speed beside each app on its card, over that alone, with all SMs for both. What is not known is not there."""
    neighbour_rates: Mapping[str, float] = field(default_factory=dict)
    """And the speed of each of those beside it: who was there before it came is not told anew."""
