"""Calibrated quantiles: nine of ten runs should have ended by their predicted P90.

Adaptive conformal inference (Gibbs and Candès, NeurIPS 2021), on the scale of log odds. If too many runs exceed a
quantile, the next value is taken from a higher level, and vice versa. Drift is followed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpusquad.model.prediction import LEVELS
from gpusquad.predict._bins import Floats

_NOMINAL = np.asarray(LEVELS)
_NOMINAL_ODDS = np.log(_NOMINAL / (1 - _NOMINAL))
_SPREAD = np.sqrt(_NOMINAL * (1 - _NOMINAL))
_MAX_OFFSET = 4.0
"""Largest correction, in log odds. It turns a median into at most a P98."""


class QuantileCalibration:
    """The levels to look up so that the quantiles are calibrated: an offset for all tenants, plus one per tenant."""

    def __init__(self, rate: float, max_tenants: int = 10_000) -> None:
        self.rate = rate
        self.max_tenants = max_tenants
        self._all = np.zeros(len(LEVELS))
        self._tenants: OrderedDict[str, Floats] = OrderedDict()

    def levels(self, tenant: str) -> Floats:
        """The levels at which to look up the values for ``LEVELS``."""
        odds = _NOMINAL_ODDS + self._all + self._tenants.get(tenant, 0.0)
        return np.maximum.accumulate(1 / (1 + np.exp(-odds)))

    def learn(self, tenant: str, predicted: Sequence[int], run_us: int, was_cut: bool) -> None:
        """Learn from a finished run and its prediction. A run that was cut short is only known to have passed the
        values below its run time.
        """
        passed = np.asarray(predicted) < run_us
        step = self.rate * (passed - (1 - _NOMINAL)) / _SPREAD
        if was_cut:
            step = np.where(passed, step, 0.0)
        self._all = np.clip(self._all + step / 2, -_MAX_OFFSET, _MAX_OFFSET)
        own = self._tenants.pop(tenant, None)
        self._tenants[tenant] = np.clip(
            (np.zeros(len(LEVELS)) if own is None else own) + step / 2, -_MAX_OFFSET, _MAX_OFFSET
        )
        if len(self._tenants) > self.max_tenants:
            self._tenants.popitem(last=False)

    def dump(self) -> dict[str, Any]:
        return {"all": self._all.tolist(), "tenants": [[name, own.tolist()] for name, own in self._tenants.items()]}

    def load(self, dumped: dict[str, Any]) -> None:
        self._all = _offsets(dumped["all"])
        kept = dumped["tenants"][-self.max_tenants :]
        self._tenants = OrderedDict((str(name), _offsets(own)) for name, own in kept)


def _offsets(values: Sequence[float]) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    if found.shape != (len(LEVELS),) or not np.isfinite(found).all():
        raise ValueError("invalid offsets of levels")
    return found
