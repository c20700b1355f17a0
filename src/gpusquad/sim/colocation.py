"""Rates of jobs that share a card, from measured pairs.

The rate of a job among several neighbours is the product of ``1 - rho`` over them, where ``rho`` is the loss caused by
one neighbour alone.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpusquad.model.errors import Invalid
from gpusquad.model.interference import MeasurementSeries
from gpusquad.model.interference_data import from_data
from gpusquad.sim.traces._base import open_text

MEAN_RATIO = 0.66
"""For pairs that were not measured: the mean of Gavel's V100 pairs that fit together."""
_KEY = re.compile(r"\('(.+)', (\d+)\)")


@dataclass(frozen=True)
class PairTable:
    """Rates of pairs on one card."""

    ratios: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """(own workload, other workload) -> own speed beside it over own speed alone; 0: does not fit in memory."""
    default_ratio: float = MEAN_RATIO
    gpu: str = ""
    """Model of the card on which they were measured."""

    def __post_init__(self) -> None:
        if not 0 < self.default_ratio <= 1:
            raise Invalid("default_ratio", f"{self.default_ratio} is not above 0 and at most 1")

    def slowdown(self, own_workload: str, other_workload: str) -> float | None:
        """Own speed beside the other, over own speed alone; 0 if they do not fit together; None if not measured."""
        return self.ratios.get((own_workload, other_workload))

    def rate(self, own: str, others: Sequence[str]) -> float:
        """Own rate among all of them: 1 as if alone, 0 if one of them does not fit beside it."""
        result = 1.0
        for other in others:
            result *= min(max(self.ratios.get((own, other), self.default_ratio), 0.0), 1.0)
        return result


@dataclass(frozen=True)
class Throughputs:
    """Measured steps per second of one GPU model."""

    alone: dict[tuple[str, int], float]
    """(workload, GPUs) -> steps per second."""
    packed: dict[tuple[str, str], float]
    """(own workload, other workload) -> own steps per second, both on one GPU."""


def load_pairs(path: str | Path, gpu: str = "v100", default_ratio: float = MEAN_RATIO) -> PairTable:
    """The pair table of a measurement file: gpusquad's own, or Gavel's throughputs (JSON, compressed or not)."""
    data = _read(Path(path))
    if "setting" in data:
        return pairs_of(from_data(data, Path(path).name))
    measured = _throughputs(data, path, gpu)
    ratios = {}
    for (own, other), speed in measured.packed.items():
        alone = measured.alone.get((own, 1), 0.0)
        if alone > 0:
            ratios[own, other] = speed / alone
    return PairTable(ratios, default_ratio, gpu)


def pairs_of(measured: MeasurementSeries) -> PairTable:
    """Measured pairs that shared all SMs; for other pairs the mean of those that fit together."""
    ratios = {
        (own, other): run.ratios[place].mean if run.fits else 0.0
        for own, other, run, place in measured.pairs()
        if run.is_unrestricted
    }
    those_that_fit = [min(ratio, 1.0) for ratio in ratios.values() if ratio > 0]
    mean = sum(those_that_fit) / len(those_that_fit) if those_that_fit else MEAN_RATIO
    return PairTable(ratios, mean, measured.setting.gpu)


def load_throughputs(path: str | Path, gpu: str = "v100") -> Throughputs:
    """Gavel's file: ``{gpu: {"('model', GPUs)": {"null": alone, "('other', GPUs)": [own, other]}}}``."""
    return _throughputs(_read(Path(path)), path, gpu)


def _throughputs(data: dict, path: str | Path, gpu: str) -> Throughputs:
    if gpu not in data:
        raise Invalid("gpu", f"nothing was measured on {gpu!r}", f"there are {', '.join(map(str, data))}")
    alone: dict[tuple[str, int], float] = {}
    packed: dict[tuple[str, str], float] = {}
    try:
        for key, speeds in data[gpu].items():
            own, gpus = _workload(key)
            for other_key, speed in speeds.items():
                if other_key == "null":
                    alone[own, gpus] = float(speed)
                    continue
                other, other_gpus = _workload(other_key)
                if gpus == other_gpus == 1:
                    packed[own, other] = float(speed[0])
    except (AttributeError, TypeError, ValueError, IndexError) as error:
        raise Invalid("throughputs", f"{path} is not a table of throughputs: {error}") from None
    return Throughputs(alone, packed)


def _workload(key: str) -> tuple[str, int]:
    match = _KEY.fullmatch(key)
    if match is None:
        raise ValueError(f"{key[:80]!r} is not ('workload', GPUs)")
    return match[1], int(match[2])


def _read(path: Path) -> dict:
    try:
        with open_text(path) as file:
            data = json.load(file)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise Invalid("throughputs", f"cannot read {path}: {error}") from None
    if not isinstance(data, dict):
        raise Invalid("throughputs", f"{path} is not a table of throughputs")
    return data
