"""Sharing parameters of a GPU client, as the scheduler knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpusquad.model.job import Slo


@dataclass(frozen=True, slots=True)
class SharingParams:
    """They can change while the client runs."""

    weight: float = 1.0
    priority: int = 0
    slo: Slo | None = None
    remaining_us: int | None = None
    """Work left, as time alone on the whole card. None: unknown."""
    memory_bytes: int | None = None
    """Memory quota. None: as at the start."""
    app: str = ""
    """The name under which its measurements are shared; empty: none."""
    curve: tuple[tuple[int, float], ...] = ()
    """Thousandths of the SMs and the speed alone with them, relative to all SMs; empty: not measured."""
    solo_per_s: float = 0.0
    """Measured steps or requests per second alone on the whole card; 0: not measured."""
    rate_beside: Mapping[str, float] = field(default_factory=dict)
    """Its rate beside each app on its card, with all SMs for both. Unknown apps are absent."""
    neighbour_rates: Mapping[str, float] = field(default_factory=dict)
    """Rate of each of those apps beside it. Clients that were there before are not updated."""
