"""Synthetic interference measurements for tests."""

from __future__ import annotations

from itertools import combinations_with_replacement

from gpusquad.model.interference import (
    ConfidenceInterval,
    CoRun,
    MeasurementSeries,
    MeasurementSetting,
    Sharing,
    SoloMeasurement,
)
from gpusquad.model.job import Job, Profile, Request, Role

GIB = 2**30
CARD = "Made Up 9000"
USE = {"busy": (0.95, 0.3), "reader": (0.9, 0.9), "middle": (0.6, 0.4), "light": (0.3, 0.1), "idle": (0.1, 0.05)}
"""Utilisation and bandwidth of each workload."""


def interval(mean: float) -> ConfidenceInterval:
    return ConfidenceInterval(mean, mean * 0.99, mean * 1.01, 3)


def expected_rate(own: str, others: list[str]) -> float:
    """Rate of a workload beside others on the synthetic card. It falls with the utilisation of all of them."""
    return 1.0 / (1.0 + USE[own][0] * sum(USE[other][0] for other in others))


def pair(own: str, other: str, first: float | None = None, second: float | None = None) -> CoRun:
    ratios = (first or expected_rate(own, [other]), second or expected_rate(other, [own]))
    return CoRun((own, other), (1000, 1000), tuple(map(interval, ratios)))


def solo(name: str, memory_gib: float = 4.0) -> SoloMeasurement:
    busy, reads = USE[name]
    by_sm = tuple((milli, min(1.0, milli / 1000 / busy)) for milli in (250, 500, 1000))
    return SoloMeasurement(name, interval(10.0), by_sm, busy, reads, round(memory_gib * GIB), 100 + 500 * busy)


def measured(
    without: tuple[str, str] | None = None,
    sharing: Sharing = "time-slicing",
    gpu: str = CARD,
    more: tuple[CoRun, ...] = (),
    memory_gib: float | None = 16.0,
    at_us: int = 1,
) -> MeasurementSeries:
    """A series with all pairs of workloads except ``without``."""
    runs = [pair(a, b) for a, b in combinations_with_replacement(USE, 2) if {a, b} != set(without or ())]
    limit = None if memory_gib is None else round(memory_gib * GIB)
    return MeasurementSeries(
        MeasurementSetting(gpu, "1.0", sharing, limit), at_us, tuple(map(solo, USE)), (*runs, *more)
    )


def triple(*names: str, ratios: tuple[float, ...] | None = None) -> CoRun:
    rates = ratios or tuple(
        expected_rate(own, [other for index, other in enumerate(names) if index != own_index])
        for own_index, own in enumerate(names)
    )
    return CoRun(names, (1000,) * len(names), tuple(map(interval, rates)))


def job(app: str = "", profile: Profile | None = None, name: str = "a") -> Job:
    return Job(name, (Role("main", 1, Request(gpus=1)),), app=app, profile=profile)
