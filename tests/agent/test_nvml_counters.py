"""A busy card that computes is told from one that spins, by figures that an H200 gave for real kernels."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpusquad.agent.nvml_calls import NvmlCard, NvmlLibrary
from gpusquad.agent.nvml_counters import WorkCounters

SM, INTEGER, TENSOR, DRAM, FP64, FP32, FP16 = 2, 4, 5, 10, 11, 12, 13
SPIN_ONE_BLOCK = {SM: 0.7576, INTEGER: 0.0012, DRAM: 0.00038}
SPIN_ALL_BLOCKS = {SM: 100.0, INTEGER: 0.6542, DRAM: 0.00038}
SPIN_ON_THE_CLOCK = {SM: 0.7576, INTEGER: 0.0389, DRAM: 0.00038}
FMA_ONE_WARP = {SM: 0.7576, INTEGER: 0.0271, TENSOR: 1.3e-9, DRAM: 0.00038, FP32: 0.0271}
HASH_ONE_BLOCK = {SM: 0.7576, INTEGER: 0.4611, DRAM: 0.00038}
COPY_ONE_BLOCK = {SM: 0.7576, INTEGER: 0.0104, DRAM: 0.0619}
GRAPH_OF_SMALL_KERNELS = {SM: 2.0412, INTEGER: 0.2023, TENSOR: 0.0018, DRAM: 0.00038, FP32: 0.2119}


class Gpm:
    """The part of NVML's binding that reads counters."""

    NVML_SUCCESS, NVML_GPM_METRICS_GET_VERSION = 0, 1
    NVMLError = type("NVMLError", (Exception,), {})

    def __init__(self, metrics: dict[int, float], missing: frozenset[int] = frozenset()) -> None:
        self.metrics, self.missing = metrics, missing
        self.samples: list[int] = []
        self.allocated = 0
        self.supported = True

    def nvmlGpmSampleAlloc(self) -> SimpleNamespace:
        self.allocated += 1
        return SimpleNamespace(at=None)

    def nvmlGpmSampleFree(self, sample: Any) -> None:
        self.allocated -= 1

    def nvmlGpmSampleGet(self, card: str, sample: Any) -> Any:
        if not self.supported:
            raise self.NVMLError
        sample.at = len(self.samples)
        self.samples.append(sample.at)
        return sample

    def c_nvmlGpmMetricsGet_t(self) -> SimpleNamespace:
        return SimpleNamespace(metrics=[SimpleNamespace(metricId=0, value=0.0, nvmlReturn=1) for _ in range(16)])

    def nvmlGpmMetricsGet(self, asked: Any) -> Any:
        assert (asked.sample1.at, asked.sample2.at) == tuple(self.samples[-2:])
        for metric in asked.metrics[: asked.numMetrics]:
            metric.value = self.metrics.get(metric.metricId, 0.0)
            metric.nvmlReturn = 3 if metric.metricId in self.missing else 0
        return asked


def counters(gpm: Gpm) -> Any:
    library = NvmlLibrary(gpm)
    watched = WorkCounters(library)
    return lambda percent: watched.computes("A", NvmlCard(library, "A"), percent)


@pytest.mark.parametrize("metrics", [SPIN_ONE_BLOCK, SPIN_ALL_BLOCKS, SPIN_ON_THE_CLOCK])
def test_kernel_that_waits_for_a_flag_does_not_compute(metrics: dict[int, float]):
    ask = counters(Gpm(metrics))
    assert [ask(100) for _ in range(3)] == [None, False, False]


@pytest.mark.parametrize("metrics", [FMA_ONE_WARP, HASH_ONE_BLOCK, COPY_ONE_BLOCK, GRAPH_OF_SMALL_KERNELS])
def test_one_block_that_works_computes(metrics: dict[int, float]):
    ask = counters(Gpm(metrics))
    assert [ask(100) for _ in range(3)] == [None, True, True]


def test_pause_starts_the_comparison_again_and_frees_the_samples():
    gpm = Gpm(SPIN_ONE_BLOCK)
    ask = counters(gpm)
    assert [ask(100), ask(100), ask(40)] == [None, False, None]
    assert gpm.allocated == 0
    assert [ask(100), ask(100)] == [None, False]


def test_card_without_counters_or_with_a_part_of_them_stays_unknown():
    gpm = Gpm(SPIN_ONE_BLOCK)
    gpm.supported = False
    ask = counters(gpm)
    assert [ask(100), ask(100), gpm.allocated] == [None, None, 0]
    gpm.supported = True
    assert [ask(100), ask(100)] == [None, False]
    ask = counters(Gpm(SPIN_ONE_BLOCK, missing=frozenset({FP16})))
    assert [ask(100), ask(100)] == [None, None]
