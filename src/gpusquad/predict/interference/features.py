"""What is known of a workload alone, as numbers by which two workloads can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log2

import numpy as np

from gpusquad.model.interference import SoloMeasurement
from gpusquad.model.job import Profile
from gpusquad.model.units import WHOLE_MILLI

UTILISATION, BANDWIDTH, MEMORY, POWER, SM_NEED, STEP = (
    "utilisation", "bandwidth", "memory", "power", "sm need", "step")  # fmt: skip
_MIN_SPREAD = 1e-6
"""A feature with the same value for all workloads carries no information and is left out."""


@dataclass(frozen=True, slots=True)
class Traits:
    """The known features of one workload by name, and a family whose members behave alike."""

    values: Mapping[str, float] = field(default_factory=dict)
    family: str = ""


def traits_of(solo: SoloMeasurement) -> Traits:
    """Features of a workload that was measured alone. Sizes count by their logarithm to base 2."""
    values = {UTILISATION: solo.utilisation_ratio, BANDWIDTH: solo.bandwidth_ratio}
    if len(solo.by_sm) > 1:
        values[SM_NEED] = sm_need(solo.by_sm)
    for name, size in ((MEMORY, solo.memory_bytes), (POWER, solo.power_w), (STEP, solo.steps_per_s.mean)):
        if size > 0:
            values[name] = log2(size)
    return Traits(values)


def traits_of_profile(profile: Profile) -> Traits:
    """Features of what a job file expects, where 0 means unknown."""
    values = {UTILISATION: profile.utilisation_ratio}
    if profile.bandwidth_ratio > 0:
        values[BANDWIDTH] = profile.bandwidth_ratio
    if profile.memory_bytes > 0:
        values[MEMORY] = log2(profile.memory_bytes)
    return Traits(values)


def sm_need(by_sm: Sequence[tuple[int, float]]) -> float:
    """The cost of half the SMs: 0 none (limited by launches or memory), 1 half the speed (limited by arithmetic)."""
    return min(max(2.0 * (1.0 - speed_at(by_sm, WHOLE_MILLI // 2)), 0.0), 1.0)


def speed_at(by_sm: Sequence[tuple[int, float]], milli: float) -> float:
    """Speed on the measured curve, made monotonic, linear between points, and 0 at no SMs."""
    points, best = [(0.0, 0.0)], 0.0
    for at, speed in sorted(by_sm):
        best = max(best, speed)
        points.append((float(at), best))
    if points[-1][0] < WHOLE_MILLI:
        points.append((float(WHOLE_MILLI), max(1.0, best)))
    return float(np.interp(milli, [at for at, _ in points], [speed for _, speed in points]))


class Scale:
    """Places workloads as points in a space where a distance of 1 is a usual difference between workloads."""

    def __init__(self, known: Mapping[str, Traits]) -> None:
        names = dict.fromkeys(name for traits in known.values() for name in traits.values)
        columns = {name: np.array([t.values[name] for t in known.values() if name in t.values]) for name in names}
        self.names = [name for name, column in columns.items() if column.std() > _MIN_SPREAD]
        self._middle = np.array([columns[name].mean() for name in self.names])
        self._step = np.array([columns[name].std() for name in self.names])
        self.families = sorted({traits.family for traits in known.values() if traits.family})
        self._whole = np.array([self._known_part(t) for t in known.values()]).reshape(len(known), len(self.names))

    @property
    def groups(self) -> list[int]:
        """The index of the length scale of each coordinate. Families share one."""
        return [*range(len(self.names)), *([len(self.names)] * len(self.families))]

    def point(self, traits: Traits) -> np.ndarray:
        """The point of a workload. Unknown features are taken from the workloads nearest in the known ones."""
        own = self._known_part(traits)
        if np.isnan(own).any():
            own = np.where(np.isnan(own), self._likely(own), own)
        same = [1.0 if traits.family == family else 0.0 for family in self.families]
        return np.concatenate([own, same])

    def in_units(self, name: str, points: np.ndarray) -> np.ndarray | None:
        """A feature of points in its original unit. None: it is not a coordinate."""
        if name not in self.names:
            return None
        at = self.names.index(name)
        return points[:, at] * self._step[at] + self._middle[at]

    def _known_part(self, traits: Traits) -> np.ndarray:
        values = np.array([traits.values.get(name, np.nan) for name in self.names], dtype=float)
        return (values - self._middle) / self._step if self.names else values

    def _likely(self, own: np.ndarray) -> np.ndarray:
        apart = np.nansum((self._whole - own) ** 2, axis=1)
        weights = np.exp(-0.5 * (apart - apart.min()))[:, None] * ~np.isnan(self._whole)
        total = weights.sum(axis=0)
        return np.where(total > 0, (weights * np.nan_to_num(self._whole)).sum(axis=0) / np.maximum(total, 1e-300), 0.0)
