"""Whether a busy card computes, from its hardware counters (GPM: Hopper and newer).

A kernel that waits for a flag keeps its SMs active but uses no arithmetic unit and no memory. One block that computes
for minutes draws as little power and receives as little over the bus, so only the counters tell them apart. Measured
with bench/hangs/card_signals.py. A sample takes 0.3 ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusquad.agent.nvml_calls import NvmlCard, NvmlLibrary

_BUSY_PERCENT = 95
_SM, _INTEGER, _DRAM = 2, 4, 10
_ARITHMETIC = (5, 11, 12, 13)  # tensor cores, FP64, FP32, FP16
_LEAST_ARITHMETIC = 0.001
"""Percent of the card's peak. Spinning kernels show 0 to 3e-9, one warp that computes shows 0.027."""
_LEAST_DRAM = 0.005
"""Percent of the bandwidth. An idle card shows 0.0004, one block that copies shows 0.06."""
_LEAST_INTEGER = 0.15
"""Instructions per active SM cycle. Loops that wait show 0.002 to 0.05, a hash function shows 0.6."""


class WorkCounters:
    """Per card: its last sample, and another to compare it with."""

    def __init__(self, library: NvmlLibrary) -> None:
        self._library = library
        self._samples: dict[str, list[Any]] = {}

    def computes(self, card: str, questions: NvmlCard, percent: int | None) -> bool | None:
        """Since the last call, if the card has been busy since then. None: it was not, or the driver does not tell."""
        if percent is None or percent < _BUSY_PERCENT:
            return self._free(card, questions)
        first = card not in self._samples
        samples = self._samples.setdefault(card, [])
        while len(samples) < 2:
            sample = questions.ask("nvmlGpmSampleAlloc")
            if sample is None:
                return None
            samples.append(sample)
        samples.reverse()
        if questions.card("nvmlGpmSampleGet", samples[1]) is None:
            return self._free(card, questions)
        return None if first else _computes(self._metrics(questions, samples))

    def forget(self) -> None:
        """Drop all samples: the library was closed, which freed them."""
        self._samples.clear()

    def _free(self, card: str, questions: NvmlCard) -> None:
        for sample in self._samples.pop(card, []):
            questions.ask("nvmlGpmSampleFree", sample)

    def _metrics(self, questions: NvmlCard, samples: list[Any]) -> Mapping[int, float]:
        wanted = (_SM, _INTEGER, _DRAM, *_ARITHMETIC)
        asked = self._library.c_nvmlGpmMetricsGet_t()
        asked.version = self._library.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(wanted)
        asked.sample1, asked.sample2 = samples
        for index, metric in enumerate(wanted):
            asked.metrics[index].metricId = metric
        if questions.ask("nvmlGpmMetricsGet", asked) is None:
            return {}
        answers = {metric: asked.metrics[index] for index, metric in enumerate(wanted)}
        return {metric: float(answer.value) for metric, answer in answers.items()
                if answer.nvmlReturn == self._library.NVML_SUCCESS}  # fmt: skip


def _computes(metrics: Mapping[int, float]) -> bool | None:
    if any(metrics.get(unit, 0.0) > _LEAST_ARITHMETIC for unit in _ARITHMETIC):
        return True
    if metrics.get(_DRAM, 0.0) > _LEAST_DRAM:
        return True
    if metrics.get(_INTEGER, 0.0) > _LEAST_INTEGER * metrics.get(_SM, 100.0):
        return True
    return False if all(unit in metrics for unit in (_SM, _INTEGER, _DRAM, *_ARITHMETIC)) else None
