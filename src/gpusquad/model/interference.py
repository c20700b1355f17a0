"""What was measured of workloads alone on a card and beside each other, and how fast a job runs among neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from gpusquad.model.job import Job
from gpusquad.model.units import WHOLE_MILLI

Sharing = Literal["time-slicing", "mps"]
"""How a card is shared: whole contexts in turns, or side by side through the multi-process service."""
SHARING_MODES: tuple[Sharing, ...] = ("time-slicing", "mps")


class Rate(Protocol):
    """How fast a job runs beside these neighbours on a card of this model: 1 is alone, 0 they do not fit."""

    def __call__(self, own: Job, others: Sequence[Job], gpu: str = "", /) -> float: ...


@dataclass(frozen=True, slots=True)
class MeasurementSetting:
    """What figures hold for. Figures of different settings are never mixed."""

    gpu: str
    """The card's model, as NVML names it."""
    driver: str
    sharing: Sharing
    memory_bytes: int | None = None
    """So much of the card could be used, all together. None: all of it."""


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
    """Thousandths of the SMs, and the speed with them over that with all; the fewest first."""
    utilisation_ratio: float = 0.0
    """Of the time, a kernel was running."""
    bandwidth_ratio: float = 0.0
    """Of the time, memory was being read or written."""
    memory_bytes: int = 0
    """Its context included."""
    power_w: float = 0.0


@dataclass(frozen=True, slots=True)
class CoRun:
    """Workloads that ran together on one card: two for a pair, three for a triple; the same one may come twice."""

    workloads: tuple[str, ...]
    sm_milli: tuple[int, ...]
    """What each was given of the SMs; 1000 for all: no restriction."""
    ratios: tuple[ConfidenceInterval, ...] = ()
    """Speed of each together over its speed alone on the whole card. Empty: they do not fit in memory."""
    samples: tuple[tuple[float, ...], ...] = ()
    """The ratios of each, repeat by repeat: what tests are made on."""
    utilisation_ratio: float = 0.0
    bandwidth_ratio: float = 0.0
    memory_bytes: int = 0
    power_w: float = 0.0
    out_of_memory: tuple[bool, ...] = ()
    """Which of them ran out of memory; empty: none did."""

    @property
    def fits(self) -> bool:
        return bool(self.ratios)

    @property
    def is_unrestricted(self) -> bool:
        return all(milli == WHOLE_MILLI for milli in self.sm_milli)


@dataclass(frozen=True, slots=True)
class MeasurementSeries:
    """All that one series of measurements found."""

    setting: MeasurementSetting
    at_us: int
    solos: tuple[SoloMeasurement, ...] = ()
    co_runs: tuple[CoRun, ...] = ()

    def solo(self, workload: str) -> SoloMeasurement | None:
        return next((solo for solo in self.solos if solo.workload == workload), None)

    def pairs(self) -> list[tuple[str, str, CoRun, int]]:
        """Every ordered pair: own, other, the run that tells, and the place of own in it. A twin comes once."""
        found = []
        for run in self.co_runs:
            if len(run.workloads) == 2:
                first, second = run.workloads
                found.append((first, second, run, 0))
                if first != second or run.sm_milli[0] != run.sm_milli[1]:
                    found.append((second, first, run, 1))
        return found
