"""Weights that grow while a goal is missed: ``w * exp(alpha * (target - actual))``, bounded and normalised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp

from gpusquad.model.squad import GpuClient
from gpusquad.policies.divide._slo import target

LEAST = 0.05
MOST = 20.0


def updated(clients: Sequence[GpuClient], before: Mapping[str, float], alpha: float, ease: float) -> dict[str, float]:
    """The weights for the next squad; their mean is 1, except where a bound holds one back.

    A goal that is met makes ``target - actual`` nought and would leave a weight raised for ever, so each squad takes
    it back to the tenant's own weight by a part ``ease``. That is far slower than the rise, or it would never settle.
    """
    raised = {}
    usual = sum(client.weight for client in clients) / len(clients) if clients else 1.0
    for client in clients:
        own = _bounded(client.weight / usual if usual > 0 else 1.0)
        now = before.get(client.id, own)
        missing = max(-1.0, min(1.0, target(client) - client.attainment)) if client.has_slo else 0.0
        now *= exp(alpha * missing)
        raised[client.id] = _bounded(now ** (1.0 - ease) * own**ease if missing <= 0 else now)
    mean = sum(raised.values()) / len(raised) if raised else 1.0
    return {name: _bounded(weight / mean) for name, weight in raised.items()}


def _bounded(weight: float) -> float:
    return min(max(weight, LEAST), MOST)
