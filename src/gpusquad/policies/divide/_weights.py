"""Weights that grow while an SLO is missed: ``w * exp(alpha * (target - actual))``, bounded and normalised."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Self

from gpusquad.model.squad import GpuClient, PolicyMemory
from gpusquad.policies.divide._slo import target
from gpusquad.policies.divide._squad_builder import of_clients

MIN_WEIGHT = 0.05
MAX_WEIGHT = 20.0


@dataclass(frozen=True)
class LearnedWeights(PolicyMemory):
    """Shared by the policies that learn weights."""

    weights: Mapping[str, float] = field(default_factory=dict)

    def only(self, clients: Collection[str]) -> Self:
        return type(self)(of_clients(clients, self.weights))


def updated(clients: Sequence[GpuClient], before: Mapping[str, float], alpha: float, ease: float) -> dict[str, float]:
    """Weights for the next squad. Their mean is 1, except where a bound applies.

    An unknown attainment does not raise a weight. While an SLO is met, ``target - actual`` is 0 and the weight would
    stay raised indefinitely. Therefore each squad moves it back towards the client's own weight by the fraction
    ``ease``. That is far slower than the rise; otherwise weights would never settle.
    """
    raised = {}
    usual = sum(client.weight for client in clients) / len(clients) if clients else 1.0
    for client in clients:
        own = _bounded(client.weight / usual if usual > 0 else 1.0)
        now = before.get(client.id, own)
        seen = client.attainment if client.has_slo else None
        missing = 0.0 if seen is None else max(-1.0, min(1.0, target(client) - seen))
        now *= exp(alpha * missing)
        raised[client.id] = _bounded(now ** (1.0 - ease) * own**ease if missing <= 0 else now)
    mean = sum(raised.values()) / len(raised) if raised else 1.0
    return {name: _bounded(weight / mean) for name, weight in raised.items()}


def _bounded(weight: float) -> float:
    return min(max(weight, MIN_WEIGHT), MAX_WEIGHT)
