"""Quantiles that are kept honest: of the runs so far, nine of ten shall have ended by what was called the ninth tenth.

Adaptive conformal inference (Gibbs and Candès, NeurIPS 2021), on the scale of log odds: where too many ran past a
quantile, the next is taken from a higher level, and the other way round. Who drifts is followed.
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
_MOST = 4.0
"""In log odds: no experience turns a middle into more than a 98th hundredth."""


class QuantileCalibration:
    """What to ask for so that it comes true: for everybody, and what each tenant adds to it."""

    def __init__(self, rate: float, most_tenants: int = 10_000) -> None:
        self.rate = rate
        self.most_tenants = most_tenants
        self._all = np.zeros(len(LEVELS))
        self._tenants: OrderedDict[str, Floats] = OrderedDict()

    def levels(self, tenant: str) -> Floats:
        """Where to look for the values at ``LEVELS``."""
        odds = _NOMINAL_ODDS + self._all + self._tenants.get(tenant, 0.0)
        return np.maximum.accumulate(1 / (1 + np.exp(-odds)))

    def learn(self, tenant: str, foretold: Sequence[int], run_us: int, was_cut: bool) -> None:
        """A run that was foretold so is over. One that was cut is known to have passed what lay below, no more."""
        passed = np.asarray(foretold) < run_us
        step = self.rate * (passed - (1 - _NOMINAL)) / _SPREAD
        if was_cut:
            step = np.where(passed, step, 0.0)
        self._all = np.clip(self._all + step / 2, -_MOST, _MOST)
        own = self._tenants.pop(tenant, None)
        self._tenants[tenant] = np.clip((np.zeros(len(LEVELS)) if own is None else own) + step / 2, -_MOST, _MOST)
        if len(self._tenants) > self.most_tenants:
            self._tenants.popitem(last=False)

    def dump(self) -> dict[str, Any]:
        return {"all": self._all.tolist(), "tenants": [[name, own.tolist()] for name, own in self._tenants.items()]}

    def load(self, dumped: dict[str, Any]) -> None:
        self._all = _offsets(dumped["all"])
        kept = dumped["tenants"][-self.most_tenants :]
        self._tenants = OrderedDict((str(name), _offsets(own)) for name, own in kept)


def _offsets(values: Sequence[float]) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    if found.shape != (len(LEVELS),) or not np.isfinite(found).all():
        raise ValueError("not the offsets of the levels")
    return found
