"""How far users' estimates were exceeded, by tenant, until there are enough runs to learn from.

By tenant and not by user: otherwise each new account could give a wrong estimate once.
"""

from __future__ import annotations

from collections import OrderedDict
from math import isfinite

import numpy as np

from gpusquad.model.prediction import LEVELS, PastRun, Quantiles
from gpusquad.predict.history import estimated

_RUNS = 20
_HONEST = 3
"""Number of runs within their estimates that each tenant starts with: one wrong estimate moves the P90 of the next,
and not its median."""
_WITHIN = 1.01


class EstimateRecord:
    """Ratios of run time to estimate of each tenant's latest runs."""

    def __init__(self, most: int = 10_000) -> None:
        self.most = most
        self._ratios: OrderedDict[str, list[float]] = OrderedDict()

    def learn(self, run: PastRun) -> None:
        """Learn from a finished run. One that was cut short has exceeded its estimate by at least this much, or says
        nothing."""
        estimate_us = run.job.estimate_us
        if estimate_us is None:
            return
        ratio = max(1.0, run.run_us / max(1, estimate_us))
        if run.was_cut and ratio <= _WITHIN:
            return
        ratios = self._ratios.pop(run.job.tenant, [])
        self._ratios[run.job.tenant] = [*ratios, ratio if ratio > _WITHIN else 1.0][-_RUNS:]
        if len(self._ratios) > self.most:
            self._ratios.popitem(last=False)

    def predict(self, tenant: str, estimate_us: int) -> Quantiles:
        """The estimate, multiplied by the factors by which the tenant exceeded earlier ones."""
        ratios = self._ratios.get(tenant, [])
        if not ratios or max(ratios) <= 1.0:
            return estimated(estimate_us)
        factors = np.quantile([*ratios, *[1.0] * _HONEST], LEVELS, method="higher")
        return Quantiles(LEVELS, tuple(round(max(1, estimate_us) * factor) for factor in factors), "user")

    def dump(self) -> list:
        return [[tenant, ratios] for tenant, ratios in self._ratios.items()]

    def load(self, dumped: list) -> None:
        self._ratios = OrderedDict((str(tenant), _checked(ratios)) for tenant, ratios in dumped[-self.most :])


def _checked(ratios: list) -> list[float]:
    found = [float(ratio) for ratio in ratios]
    if len(found) > _RUNS or not all(isfinite(ratio) and ratio >= 1 for ratio in found):
        raise ValueError("invalid ratios of run time to estimate")
    return found
