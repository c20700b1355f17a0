"""Interference measurements and model as tables: alone, beside each other, and the model's error."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np

from gpusquad.model.interference import ConfidenceInterval, MeasurementSeries, SoloMeasurement
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.units import US_PER_S, WHOLE_MILLI
from gpusquad.predict.interference import EffectiveThroughput, InterferenceTable, RateEstimate
from gpusquad.predict.interference.effective import Errors
from gpusquad.server.views import Plain

MAX_WORKLOADS = 64
"""Per card model: a larger heat map cannot be read."""
_PROBE = (Role("main", 1, Request(gpus=1)),)


@dataclass(frozen=True, slots=True)
class _Fit:
    """How well the model fits the measurements."""

    measured: MeasurementSeries
    splits: Errors | None
    triples: Errors | None
    words: str


@dataclass(frozen=True, slots=True)
class _LearnedPairs:
    own: str
    other: str
    offset: float
    seconds: float


class InterferenceService:
    """Caches slow results while the measurements do not change."""

    def __init__(self, lock: Any = None) -> None:
        self._lock = nullcontext() if lock is None else lock
        """Protects what is learned."""
        self._fits: dict[str, _Fit] = {}
        self._fitting = threading.Lock()

    def tables(self, model: Any, names_all: bool) -> Plain:
        """``names_all``: include workloads that were only learned, whose names were chosen by tenants."""
        if not isinstance(model, InterferenceTable):
            return {"sharing": None, "cards": [], "truncated": False}
        learned = self._learned(model)
        gpus = [*model.tables, *(gpu for gpu in learned if names_all and gpu not in model.tables)]
        cards = [self._card(model, gpu, learned.get(gpu, ()), names_all) for gpu in dict.fromkeys(gpus)]
        return {
            "sharing": model.sharing,
            "cards": [card for card, _ in cards],
            "truncated": any(has_more for _, has_more in cards),
        }

    def _learned(self, model: InterferenceTable) -> dict[str, list[_LearnedPairs]]:
        with self._lock:
            rows = model.dump()["pairs"]
        found: dict[str, list[_LearnedPairs]] = {}
        for gpu, own, other, offset, _, seconds in rows:
            found.setdefault(gpu, []).append(_LearnedPairs(own, other, offset, seconds))
        return found

    def _card(
        self, model: InterferenceTable, gpu: str, learned: Sequence[_LearnedPairs], names_all: bool
    ) -> tuple[Plain, bool]:
        measured = model.tables.get(gpu)
        names = _names(measured, learned if names_all else ())
        shown = names[:MAX_WORKLOADS]
        seconds = {(one.own, one.other): one.seconds for one in learned}
        fit = None if measured is None else self._fit(gpu, measured)
        setting = None if measured is None else measured.setting
        return {
            "gpu": gpu,
            "driver": None if setting is None else setting.driver,
            "memory_bytes": None if setting is None else setting.memory_bytes,
            "measured_s": None if measured is None else measured.at_us / US_PER_S,
            "workloads": [_workload(name, measured) for name in shown],
            "pairs": [_pair(model, own, other, gpu, seconds.get((own, other))) for own in shown for other in shown],
            "errors": {
                "splits": None if fit is None else _errors(fit.splits),
                "triples": None if fit is None else _errors(fit.triples),
                "running": _errors(_running_errors(learned)),
                "words": "" if fit is None else fit.words,
            },
        }, len(names) > len(shown)

    def _fit(self, gpu: str, measured: MeasurementSeries) -> _Fit:
        with self._fitting:
            known = self._fits.get(gpu)
            if known is None or known.measured is not measured:
                effective = EffectiveThroughput(measured)
                check = effective.triples
                chosen = check.odds if effective.combination.odds_part >= 1.0 else check.product
                triples = check.between if 0.0 < effective.combination.odds_part < 1.0 else chosen
                known = self._fits[gpu] = _Fit(measured, effective.split_errors(), triples, check.words())
            return known


def probe(app: str) -> Job:
    """A job of that app, to query the model with."""
    return Job(id=app, roles=_PROBE, app=app)


def source_of(estimate: RateEstimate, watched_s: float | None) -> str:
    """In the form of the API."""
    if watched_s is not None:
        return "learned"
    return "measured" if estimate.source == "measured" else "predicted"


def _names(measured: MeasurementSeries | None, learned: Iterable[_LearnedPairs]) -> list[str]:
    """Measured ones first, in the order of measurement."""
    solos = [solo.workload for solo in measured.solos] if measured is not None else []
    beside = [name for run in measured.co_runs for name in run.workloads] if measured is not None else []
    seen = [name for one in learned for name in (one.own, one.other)]
    return [name for name in dict.fromkeys([*solos, *beside, *seen]) if name]


def _pair(model: InterferenceTable, own: str, other: str, gpu: str, watched_s: float | None) -> Plain:
    found = model.estimate(probe(own), probe(other), gpu)
    return {
        "own": own,
        "other": other,
        "speed_ratio": found.rate,
        "slowdown": 1.0 / found.rate if found.rate > 0 else None,
        "spread": found.spread,
        "source": source_of(found, watched_s),
        "basis": found.source,
        "watched_s": watched_s or 0.0,
    }


def _workload(name: str, measured: MeasurementSeries | None) -> Plain:
    solo = None if measured is None else measured.solo(name)
    return {"name": name, "solo": None if solo is None else _solo(solo)}


def _solo(solo: SoloMeasurement) -> Plain:
    return {
        "steps_per_s": _interval(solo.steps_per_s),
        "curve": [{"sm_ratio": milli / WHOLE_MILLI, "speed_ratio": speed} for milli, speed in solo.by_sm],
        "utilisation_ratio": solo.utilisation_ratio,
        "bandwidth_ratio": solo.bandwidth_ratio,
        "memory_bytes": solo.memory_bytes,
        "power_w": solo.power_w,
    }


def _interval(one: ConfidenceInterval) -> Plain:
    return {"mean": one.mean, "low": one.low, "high": one.high, "repeats": one.repeats}


def _running_errors(learned: Sequence[_LearnedPairs]) -> Errors | None:
    """Correction of each pair: how far measurements or predictions were from observed rates."""
    if not learned:
        return None
    relative = np.array([exp(-one.offset) - 1.0 for one in learned])
    size = np.abs(relative)
    return Errors(float(np.median(size)), float(np.percentile(size, 90)), float(size.mean()), float(relative.mean()),
                  len(learned))  # fmt: skip


def _errors(found: Errors | None) -> Plain | None:
    if found is None:
        return None
    return {"count": found.count, "median": found.median, "p90": found.p90, "mean": found.mean, "bias": found.bias}
