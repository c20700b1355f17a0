"""How often predictions of a tenant were about right: the upper bound of the confidence in the next one."""

from __future__ import annotations

from collections import OrderedDict

from gpusquad.model.prediction import PastRun

_FACTOR = 2.0
"""Largest ratio of run time to predicted median, either way, that counts as about right."""
_DECAY = 0.95


class HitRate:
    """Decaying fraction of predictions that were about right, by tenant."""

    def __init__(self, most: int = 10_000) -> None:
        self.most = most
        self._counts: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Tenant -> hits, predictions."""

    def learn(self, run: PastRun, middle_us: int) -> None:
        """Learn from a finished run and its predicted median. A run that was cut early says nothing."""
        ratio = max(1, run.run_us) / max(1, middle_us)
        if run.was_cut and ratio <= _FACTOR:
            return
        hits, count = self._counts.pop(run.job.tenant, (0.0, 0.0))
        is_hit = 1 / _FACTOR <= ratio <= _FACTOR
        self._counts[run.job.tenant] = (_DECAY * hits + is_hit, _DECAY * count + 1.0)
        if len(self._counts) > self.most:
            self._counts.popitem(last=False)

    def of(self, tenant: str) -> float:
        hits, count = self._counts.get(tenant, (0.0, 0.0))
        return hits / count if count else 1.0

    def dump(self) -> list:
        return [[tenant, *counts] for tenant, counts in self._counts.items()]

    def load(self, dumped: list) -> None:
        self._counts = OrderedDict((str(name), _checked(hits, count)) for name, hits, count in dumped[-self.most :])


def _checked(hits: float, count: float) -> tuple[float, float]:
    if not 0 <= hits <= count <= 1 / (1 - _DECAY) + 1:
        raise ValueError("invalid counts of predictions")
    return float(hits), float(count)
