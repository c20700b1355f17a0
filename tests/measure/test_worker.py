"""Tests for the worker and the card monitor with fake workloads and a fake card."""

from __future__ import annotations

import importlib.util
import time
from types import SimpleNamespace
from typing import Any

import pytest

from gpusquad.gpu.nvml import CardReader, NvmlError
from gpusquad.measure.card.monitor import CHUNK_BYTES, CardMonitor
from gpusquad.measure.step_counter import StepWindow
from gpusquad.measure.worker import InProcess, _verbs, is_no_room
from gpusquad.measure.workloads import CATALOGUE, MODELS_OF_2020, Step, Workload, find
from gpusquad.model.errors import Invalid
from tests.measure import fakes


def _workload_with_builds(successes: list[bool]) -> Workload:
    """A workload whose builds succeed or run out of memory in the given order."""

    def build(torch: Any, device: str, batch: int) -> Step:
        if not successes.pop(0):
            raise RuntimeError("CUDA error: out of memory")
        return lambda: None

    return Workload("flaky", "", build, needs_torch=False)


def test_worker_can_build_again_after_out_of_memory() -> None:
    verbs = _verbs(InProcess(_workload_with_builds([False, True])))
    assert verbs["build"]({}) == {"out_of_memory": True}
    assert verbs["build"]({})["out_of_memory"] is False
    window = {"start_s": time.monotonic(), "lead_in_s": 0.2, "length_s": 0.01, "tail_s": 0.0}
    assert verbs["run"](window)["out_of_memory"] is False


def test_out_of_memory_in_a_window_is_reported_and_parks_the_worker() -> None:
    steps = iter([None] * 4)

    def step() -> None:
        if next(steps, 1) is not None:
            raise MemoryError

    verbs = _verbs(InProcess(Workload("w", "", lambda *_: step, needs_torch=False)))
    verbs["build"]({})
    window = {"start_s": 0.0, "lead_in_s": time.monotonic() + 5, "length_s": 0.0, "tail_s": 0.0}
    assert verbs["run"](window) == {"out_of_memory": True}
    assert verbs["run"](window)["error"] == "no workload is built"


def test_missed_window_is_reported_as_late() -> None:
    runner = InProcess(fakes.quick)
    runner.build()
    assert runner.run(StepWindow(0.0, 0.0, 1.0)) == {"late": True}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
    ],
)
def test_out_of_memory_errors_are_recognized(error: Exception, expected: bool) -> None:
    assert is_no_room(error) is expected


def test_catalogue_has_the_expected_workloads() -> None:
    others = {"transformer-training", "transformer-inference", "stream", "matmul"}
    assert set(CATALOGUE) == {*MODELS_OF_2020, *others}
    assert all(name == workload.name and workload.about for name, workload in CATALOGUE.items())
    assert find("cnn") is CATALOGUE["cnn"]
    assert find(fakes.QUICK) is fakes.quick


@pytest.mark.parametrize("name", ["nonsense", "no.such.module:it", f"{fakes.HERE}:nothing"])
def test_unknown_workload_names_are_refused(name: str) -> None:
    with pytest.raises(Invalid, match=name.partition(":")[0]):
        find(name)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
@pytest.mark.parametrize("name", ["cnn", "alexnet", "googlenet"])
def test_catalogue_models_can_be_trained(name: str) -> None:
    import torch  # pyright: ignore[reportMissingImports]

    step = CATALOGUE[name].build(torch, "cpu", 1)
    step()
    step()


class FakeReader:
    """A card reader with fixed values, without the newer NVML functions."""

    energy = 0.0

    def busy_ratios(self) -> tuple[float, float]:
        return 0.5, 0.25

    def power_w(self) -> float:
        return 200.0

    def used_bytes(self) -> int:
        return 7

    def energy_j(self) -> float:
        raise NvmlError("not here")

    def by_process(self) -> dict[int, int]:
        raise NvmlError("not here")

    def call(self, name: str, *_: Any) -> None:
        raise NvmlError(name)


def test_monitor_works_without_newer_nvml_functions() -> None:
    monitor = CardMonitor(FakeReader())  # pyright: ignore
    now_s = time.monotonic()
    observed = monitor.watch({"from_s": now_s, "to_s": now_s + 0.2})
    assert (observed["utilisation_ratio"], observed["bandwidth_ratio"], observed["power_w"]) == (0.5, 0.25, 200.0)
    assert observed["counters"] == {}
    assert monitor.memory({}) == {"used_bytes": 7, "by_process": {}}


def test_monitor_ballast_grows_and_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = CardMonitor(FakeReader())  # pyright: ignore
    total = 100 * CHUNK_BYTES
    held: list[Any] = monitor._held
    cuda = SimpleNamespace(
        mem_get_info=lambda: (total - len(held) * CHUNK_BYTES, total),
        empty_cache=lambda: None,
    )
    fake = SimpleNamespace(cuda=cuda, empty=lambda *_, **__: object(), uint8=None)
    assert monitor.room({"free_bytes": -1}) == {}  # PyTorch is not loaded when there is nothing to release
    monkeypatch.setattr(monitor, "_torch", fake)
    assert monitor.room({"free_bytes": 12 * CHUNK_BYTES})["free_bytes"] == 12 * CHUNK_BYTES
    assert monitor.room({"free_bytes": 40 * CHUNK_BYTES})["held_bytes"] == 60 * CHUNK_BYTES
    assert monitor.room({"free_bytes": -1})["free_bytes"] == total


def test_missing_driver_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusquad.gpu.nvml._LIBRARY", "libno-such-library.so")
    with pytest.raises(Invalid, match="driver is not installed"):
        CardReader("0")
