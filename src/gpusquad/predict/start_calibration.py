"""The P90 of a forecast start, learned from earlier forecasts and the starts that followed.

The median comes from replaying the plan, which does not say how far it errs: jobs arrive, run times differ from their
predictions, and errors cancel. Therefore past waits are compared with the forecast ones. The score of a forecast is the
logarithm of the ratio of both, and the P90 uses the score that nine of ten such forecasts did not exceed (split
conformal prediction). Four rules keep it honest:

- Forecasts of similar waits count most, because short waits err by larger factors than long ones.
- Jobs that still wait count with their wait so far (Kaplan and Meier, 1958). The longest waits are settled last.
- Forecasts that one user got within a few minutes count as one. Jobs of a sweep wait for the same gap and err together.
- The weight of a single tenant or user is bounded (``_MOST_RATIO``).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import expm1, log1p

import numpy as np
from numpy.typing import NDArray

from gpusquad.model.units import US_PER_S
from gpusquad.predict._bins import Floats

LEVEL = 0.9
LEAST = 20
"""Settled forecasts without which nothing is known."""
_ENOUGH = 20
"""Moments (`_MOMENT_US`) with settled forecasts of a tenant from which on the other tenants do not count for it."""
_MOST_RATIO = 0.25
"""Largest part of the weight that one tenant has among all, or one user within a tenant, unless there are too few
others: each may weigh as much as `LEAST` moments."""
_MOMENT_US = 300 * US_PER_S
_SHORT_US = 300 * US_PER_S
"""Added to both waits of a ratio: five minutes instead of one are not five times too late."""
_WIDTH = 1.0
"""Standard deviation of the weight over the logarithm of the forecast wait."""
_BACKGROUND = 1e-3
"""Weight of forecasts of quite other waits. It counts where there are no similar ones."""
_STEP = 0.35
"""Distance of the forecast waits, as logarithms, for which the score is computed. It is interpolated between them."""
PER_TENANT = 500
"""Settled forecasts of a tenant that are kept: the latest."""
_TENANTS = 50

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FirstForecast:
    """Forecast of a start when the job began to wait, as two instants."""

    tenant: str
    user: str
    made_us: int
    mid_us: int


@dataclass(frozen=True, slots=True)
class _Wait:
    """A forecast, and the wait until the start. ``is_cut``: the job still waits."""

    forecast: FirstForecast
    waited_us: int
    is_cut: bool = False


class StartCalibration:
    """The record that the P90 is learned from: fed with forecasts and starts, as they happen."""

    def __init__(self) -> None:
        self._open: dict[str, FirstForecast] = {}
        self._settled: OrderedDict[str, deque[_Wait]] = OrderedDict()
        """Tenant to its waits. The tenant seen least recently is evicted first."""

    @property
    def open(self) -> frozenset[str]:
        """Jobs with a forecast that wait."""
        return frozenset(self._open)

    def made(self, job_id: str, forecast: FirstForecast) -> None:
        """A later forecast does not replace the first one."""
        self._open.setdefault(job_id, forecast)

    def settle(self, job_id: str, started_us: int) -> None:
        """The job has started."""
        forecast = self._open.pop(job_id, None)
        if forecast is None:
            return
        waits = self._settled.setdefault(forecast.tenant, deque(maxlen=PER_TENANT))
        waits.append(_Wait(forecast, max(0, started_us - forecast.made_us)))
        self._settled.move_to_end(forecast.tenant)
        if len(self._settled) > _TENANTS:
            self._settled.popitem(last=False)

    def forget(self, job_id: str) -> None:
        """The job left the queue without a start: its user cancelled or holds it."""
        self._open.pop(job_id, None)

    def at(self, now_us: int) -> StartRange:
        """What is known now. Does not change with the record."""
        settled = [wait for waits in self._settled.values() for wait in waits]
        pending = [_Wait(one, max(0, now_us - one.made_us), True) for one in self._open.values()]
        return StartRange((*settled, *pending))


class StartRange:
    """Gives a forecast start its P90."""

    def __init__(self, waits: Sequence[_Wait] = ()) -> None:
        self._waits = waits
        self._tenants: dict[str, _Scores | None] = {}

    def high_us(self, tenant: str, made_us: int, mid_us: int) -> int | None:
        """The P90 of a start that was forecast for ``mid_us``, never before it. None: too little is known."""
        if tenant not in self._tenants:
            self._tenants[tenant] = self._scores_of(tenant)
        scores = self._tenants[tenant]
        if scores is None:
            return None
        position = _log_wait(max(0, mid_us - made_us))
        wait_us = _SHORT_US * expm1(min(position + scores.at(position), 40.0))
        return max(mid_us, made_us + round(wait_us))

    def _scores_of(self, tenant: str) -> _Scores | None:
        own = [wait for wait in self._waits if wait.forecast.tenant == tenant]
        moments = {_moment(wait.forecast) for wait in own if not wait.is_cut}
        if len(moments) >= _ENOUGH:
            return _Scores(own, [wait.forecast.user for wait in own])
        return self._of_all

    @cached_property
    def _of_all(self) -> _Scores | None:
        if sum(not wait.is_cut for wait in self._waits) < LEAST:
            return None
        return _Scores(self._waits, [wait.forecast.tenant for wait in self._waits])


class _Scores:
    """Scores of waits, with their weights: ascending, and where they are equal, those that are cut last."""

    def __init__(self, waits: Sequence[_Wait], owners: Sequence[str]) -> None:
        positions = np.array([_log_wait(wait.forecast.mid_us - wait.forecast.made_us) for wait in waits])
        scores = np.array([_log_wait(wait.waited_us) for wait in waits]) - positions
        is_cut = np.array([wait.is_cut for wait in waits])
        order = np.lexsort((is_cut, scores))
        self._scores, self._is_cut, self._positions = scores[order], is_cut[order], positions[order]
        self._moments = _codes(_moment(waits[index].forecast) for index in order)
        self._weights = _weights(self._moments, _codes(owners[index] for index in order))
        self._known: dict[int, float] = {}

    def at(self, position: float) -> float:
        """The score that nine of ten forecasts of such a wait do not exceed."""
        step = int(position / _STEP)
        part = position / _STEP - step
        return (1 - part) * self._at_step(step) + part * self._at_step(step + 1)

    def _at_step(self, step: int) -> float:
        if step not in self._known:
            distances = (self._positions - step * _STEP) / _WIDTH
            self._known[step] = self._quantile(self._weights * (np.exp(-0.5 * distances**2) + _BACKGROUND))
        return self._known[step]

    def _quantile(self, weights: Floats) -> float:
        """By Kaplan and Meier, with one more moment of the usual weight that exceeds all: the one that is asked for.
        The largest score, if none is known to be large enough."""
        by_moment = np.bincount(self._moments, weights)
        usual = float(by_moment @ by_moment / by_moment.sum())
        waiting = np.cumsum(weights[::-1])[::-1] + usual
        left = np.cumprod(1.0 - np.where(self._is_cut, 0.0, weights / waiting))
        index = int(np.searchsorted(-left, LEVEL - 1.0 - 1e-9))
        return float(self._scores[min(index, len(self._scores) - 1)])


def _log_wait(wait_us: int) -> float:
    return log1p(max(0, wait_us) / _SHORT_US)


def _moment(forecast: FirstForecast) -> tuple[str, str, int]:
    return forecast.tenant, forecast.user, forecast.made_us // _MOMENT_US


def _codes(keys: Iterable[Hashable]) -> Codes:
    """Equal numbers for equal keys, from zero."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)


def _weights(moments: Codes, owners: Codes) -> Floats:
    """Each moment counts as one, and no owner more than the bound."""
    each = (1.0 / np.bincount(moments))[moments]
    totals = np.bincount(owners, each)
    most = float(totals.max())
    while (bound := max(LEAST, _MOST_RATIO * float(np.minimum(totals, most).sum()))) < most - 1e-6:
        most = bound
    return each * np.minimum(1.0, most / totals)[owners]
