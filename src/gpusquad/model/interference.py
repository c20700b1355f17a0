"""Measurements of workloads alone on a card and together, and the rate of a job beside neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from gpusquad.model.job import Job
from gpusquad.model.units import WHOLE_MILLI

Sharing = Literal["time-slicing", "mps"]
"""How a card is shared: time-sliced contexts, or concurrently through MPS."""
SHARING_MODES: tuple[Sharing, ...] = ("time-slicing", "mps")


class Rate(Protocol):
    """Rate of a job beside these neighbours on a card of this model. 1: as alone; 0: they do not fit."""

    def __call__(self, own: Job, others: Sequence[Job], gpu: str = "", /) -> float: ...


@runtime_checkable
class RateWithSource(Rate, Protocol):
    """A rate that says which of its answers are known and which are only predicted."""

    def knows(self, own: Job, other: Job, gpu: str = "", /) -> bool:
        """Whether the rate beside this neighbour was measured, or learned from running jobs."""
        ...


def is_known(rate: Rate, jobs: Sequence[Job], gpu: str = "") -> bool:
    """Whether the rate of each of these jobs beside each other one is known. A rate without sources knows all."""
    if not isinstance(rate, RateWithSource):
        return True
    pairs = ((own, other) for i, own in enumerate(jobs) for k, other in enumerate(jobs) if i != k)
    return all(rate.knows(own, other, gpu) for own, other in pairs)


@dataclass(frozen=True, slots=True)
class MeasurementSetting:
    """Conditions of a measurement. Results of different settings are never mixed."""

    gpu: str
    """Model of the card, as reported by NVML."""
    driver: str
    sharing: Sharing
    memory_bytes: int | None = None
    """Memory of the card available to all workloads together. None: all of it."""


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """A mean over repeats, with its 95 % confidence interval."""

    mean: float
    low: float
    high: float
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class SoloMeasurement:
    """A workload alone on a card."""

    workload: str
    steps_per_s: ConfidenceInterval
    """On the whole card."""
    by_sm: tuple[tuple[int, float], ...] = ((WHOLE_MILLI, 1.0),)
    """Pairs of thousandths of the SMs and speed relative to all SMs, ascending."""
    utilisation_ratio: float = 0.0
    """Fraction of the time in which a kernel was running."""
    bandwidth_ratio: float = 0.0
    """Fraction of the time in which memory was read or written."""
    memory_bytes: int = 0
    """Peak memory, including the context."""
    power_w: float = 0.0


@dataclass(frozen=True, slots=True)
class CoRun:
    """A measurement of two or three workloads together on one card. The same workload may occur twice."""

    workloads: tuple[str, ...]
    sm_milli: tuple[int, ...]
    """Thousandths of the SMs of each workload. 1000: no restriction."""
    ratios: tuple[ConfidenceInterval, ...] = ()
    """Rate of each workload: speed together over speed alone on the whole card. Empty: they do not fit in memory."""
    samples: tuple[tuple[float, ...], ...] = ()
    """Rates of each workload by repeat, for statistical tests."""
    utilisation_ratio: float = 0.0
    bandwidth_ratio: float = 0.0
    memory_bytes: int = 0
    power_w: float = 0.0
    out_of_memory: tuple[bool, ...] = ()
    """Which workloads ran out of memory. Empty: none."""

    @property
    def fits(self) -> bool:
        return bool(self.ratios)

    @property
    def is_unrestricted(self) -> bool:
        return all(milli == WHOLE_MILLI for milli in self.sm_milli)


@dataclass(frozen=True, slots=True)
class MeasurementSeries:
    """Results of one series of measurements."""

    setting: MeasurementSetting
    at_us: int
    solos: tuple[SoloMeasurement, ...] = ()
    co_runs: tuple[CoRun, ...] = ()

    def solo(self, workload: str) -> SoloMeasurement | None:
        return next((solo for solo in self.solos if solo.workload == workload), None)

    def pairs(self) -> list[tuple[str, str, CoRun, int]]:
        """Every ordered pair: own, other, their co-run, and the position of own in it. A pair of equal workloads occurs
        once."""
        found = []
        for run in self.co_runs:
            if len(run.workloads) == 2:
                first, second = run.workloads
                found.append((first, second, run, 0))
                if first != second or run.sm_milli[0] != run.sm_milli[1]:
                    found.append((second, first, run, 1))
        return found
