"""How fast tenants run beside each other, where only a table of coefficients is at hand.

The form is that of ``T_eff`` in the interference predictor, with its usual parameters. What was measured or learned of
two comes with the tenants; a daemon started by hand reads coefficients from a file, or assumes that tenants compete for
SMs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

from gpusquad.model.squad import GpuClient, sm_need, solo_speed
from gpusquad.model.units import WHOLE_MILLI

Rho = Mapping[tuple[str, str], float]
_BASE, _BY_NEED = 0.3, 0.5
_MOST = 0.99
_LEAST_NEED = 0.2


@dataclass(frozen=True)
class TableRates:
    """``rho[own, other]``: the speed that a neighbour takes when neither is restricted. What tenants say of each other
    goes first; pairs that nobody knows of are foretold by need."""

    rho: Rho = field(default_factory=dict)

    def __call__(self, client: GpuClient, share_milli: int, others: Sequence[tuple[GpuClient, int]], /) -> float:
        need = sm_need(client)
        own = share_milli / WHOLE_MILLI
        alone = solo_speed(client, share_milli)
        odds = 0.0
        for other, milli in others:
            lost = self._rho(client, other, need) * _phi(need, own, milli / WHOLE_MILLI)
            lost = min(max(lost, 0.0), _MOST)
            odds += lost / (1.0 - lost)  # so that n rivals have an nth each
        return alone / (1.0 + odds)

    def _rho(self, client: GpuClient, other: GpuClient, need: float) -> float:
        if (speed := client.rate_beside.get(other.app, other.neighbour_rates.get(client.app))) is not None:
            return 1.0 - speed
        found = self.rho.get((client.id, other.id))
        return found if found is not None else _rivalry(need, sm_need(other))


def _rivalry(need: float, other: float) -> float:
    """Where nothing was measured. Two that each want all SMs have half each (332 of 660 TFLOP/s were measured for two
    equal products of matrices). Who wants fewer gains less than its need leaves free, for kernels of both want them at
    the same instants: three couples of training jobs under MPS did 1.03, 1.10 and 1.17 times the work of one on an
    H200, and are foretold to do 1.08, 1.12 and 1.22 times it."""
    odds = sqrt(max(need, _LEAST_NEED) * max(other, _LEAST_NEED))
    return odds / (1.0 + odds)


def _phi(need: float, own: float, other: float) -> float:
    """How much of the interference is left with parts of the SMs: that for SMs by overlap, that for memory by size."""
    by_sm = min(_BASE + _BY_NEED * need, 1.0)
    overlap = max(0.0, own + other - 1.0) / own if own > 0 else 0.0
    return by_sm * overlap + (1.0 - by_sm) * other
