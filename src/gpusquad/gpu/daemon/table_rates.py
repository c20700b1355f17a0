"""Rates of clients beside each other, from a table of coefficients.

The formula is ``T_eff`` of the interference predictor with its default parameters. Measured and learned rates come with
the clients. A daemon that is started by hand reads coefficients from a file, or assumes that clients compete for SMs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

from gpusquad.model.squad import GpuClient, sm_need, solo_speed
from gpusquad.model.units import WHOLE_MILLI

Rho = Mapping[tuple[str, str], float]
_BASE, _BY_NEED = 0.3, 0.5
_MAX = 0.99
_LEAST_NEED = 0.2


@dataclass(frozen=True)
class TableRates:
    """``rho[own, other]``: fraction of speed lost to a neighbour when neither is restricted. Rates of the clients go
    first; unknown pairs are predicted from their SM need."""

    rho: Rho = field(default_factory=dict)

    def __call__(self, client: GpuClient, share_milli: int, others: Sequence[tuple[GpuClient, int]], /) -> float:
        need = sm_need(client)
        own = share_milli / WHOLE_MILLI
        alone = solo_speed(client, share_milli)
        odds = 0.0
        for other, milli in others:
            lost = self._rho(client, other, need) * _phi(need, own, milli / WHOLE_MILLI)
            lost = min(max(lost, 0.0), _MAX)
            odds += lost / (1.0 - lost)  # so that n rivals have an nth each
        return alone / (1.0 + odds)

    def _rho(self, client: GpuClient, other: GpuClient, need: float) -> float:
        if (speed := client.rate_beside.get(other.app, other.neighbour_rates.get(client.app))) is not None:
            return 1.0 - speed
        found = self.rho.get((client.id, other.id))
        return found if found is not None else _rivalry(need, sm_need(other))


def _rivalry(need: float, other: float) -> float:
    """Loss of speed without a measurement. Two clients that each need all SMs get half each (332 of 660 TFLOP/s were
    measured for two equal matrix products). With a smaller need the gain is less than the free SMs, because kernels of
    both need them at the same moments: three pairs of training jobs under MPS did 1.03, 1.10 and 1.17 times the work of
    one on an H200. Predicted are 1.08, 1.12 and 1.22."""
    odds = sqrt(max(need, _LEAST_NEED) * max(other, _LEAST_NEED))
    return odds / (1.0 + odds)


def _phi(need: float, own: float, other: float) -> float:
    """Fraction of the interference that remains with SM shares: for SMs by overlap, for memory by share."""
    by_sm = min(_BASE + _BY_NEED * need, 1.0)
    overlap = max(0.0, own + other - 1.0) / own if own > 0 else 0.0
    return by_sm * overlap + (1.0 - by_sm) * other
