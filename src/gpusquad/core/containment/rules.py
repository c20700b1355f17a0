"""Settings of containment."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.model.units import US_PER_S


@dataclass(frozen=True, slots=True)
class ContainmentRules:
    """Limits on losses of one job, and on cards that one tenant's jobs take out of use."""

    max_losses: int = 8
    """Recent losses after which a job is held. 0: it is retried indefinitely."""
    forgiven_after_s: float = 4 * 3600.0
    """A loss counts until the job has run this long since. Progress beyond its best step forgives all of them."""
    first_backoff_s: float = 10.0
    """Delay after the second recent loss. It doubles with each further one; the first is retried at once."""
    most_backoff_s: float = 900.0
    suspect_cards: int = 2
    """Different cards with faults after which a job is suspected and held. 0: jobs are never suspected."""
    tenant_cards: int = 2
    """Cards that wait for a self-test on account of one tenant at a time. 0: no limit."""
    early_s: float = 600.0
    """A fault within this time after the start suggests that the program causes it."""
    remembered_s: float = 24 * 3600.0
    """How long faults of cards are remembered."""

    @property
    def early_us(self) -> int:
        return round(self.early_s * US_PER_S)

    @property
    def remembered_us(self) -> int:
        return round(self.remembered_s * US_PER_S)
