"""What a tenant of a shared card is worth and wants, as the cluster tier knows it."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.model.job import Slo


@dataclass(frozen=True, slots=True)
class Standing:
    """It may change while the tenant runs."""

    weight: float = 1.0
    priority: int = 0
    slo: Slo | None = None
    remaining_us: int | None = None
    """Work still to do, alone on the whole card. None: not known."""
