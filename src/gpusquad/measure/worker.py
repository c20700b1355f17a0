"""One workload in its own process, which stays warm: ``python -m gpusquad.measure.worker NAME``.

Its requests are to build, to run a window, to park and to quit (``line_server``). Out of memory is a normal answer: the
worker can build again afterwards. Needs only PyTorch and the standard library.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gpusquad.measure.line_server import Answer, serve
from gpusquad.measure.step_counter import CudaMarks, HostMarks, StepWindow, run, wait_until
from gpusquad.measure.workloads import Step, Workload, find

WARM_UP_STEPS = 4
_OUT_OF_MEMORY_TEXTS = (
    "out of memory",
    "alloc_failed",
    "cudnn_status_not_initialized",
    "cublas_status_not_initialized",
)


class Runner(Protocol):
    """What a worker does with its workload."""

    def hello(self) -> Answer: ...
    def build(self) -> Answer: ...
    def run(self, window: StepWindow) -> Answer: ...
    def park(self) -> Answer: ...


class InProcess:
    """Runs a workload of the catalogue in this process."""

    def __init__(self, workload: Workload, device: str = "cuda", batch: int | None = None) -> None:
        self._workload = workload
        self._device = device
        self._batch = batch or workload.batch
        self._torch: Any = None
        self._step: Step | None = None

    def hello(self) -> Answer:
        if self._workload.needs_torch:
            self._torch = _torch()
            self._torch.set_num_threads(1)
            if self._on_card:
                self._torch.zeros(1, device=self._device)
                self._torch.cuda.synchronize()
        return {}

    def build(self) -> Answer:
        self.park()
        self._step = self._workload.build(self._torch, self._device, self._batch)
        for _ in range(WARM_UP_STEPS):
            self._step()
        if not self._on_card:
            return {"reserved_bytes": 0}
        self._torch.cuda.synchronize()
        return {"reserved_bytes": self._torch.cuda.memory_reserved()}

    def run(self, window: StepWindow) -> Answer:
        if self._step is None:
            return {"error": "no workload is built"}
        marks = CudaMarks(self._torch) if self._on_card else HostMarks()
        wait_until(window.start_s)
        if time.monotonic() > window.counted_from_s:
            return {"late": True}
        gc.disable()  # garbage collection pauses the host at times, and with it a program that is limited by its host
        try:
            return {"steps": run(self._step, marks, window)}
        finally:
            gc.enable()

    def park(self) -> Answer:
        self._step = None
        gc.collect()
        if self._on_card:
            self._torch.cuda.empty_cache()
        return {}

    @property
    def _on_card(self) -> bool:
        return self._torch is not None and self._device.startswith("cuda")


def _torch() -> Any:
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportError("the workloads of the catalogue need PyTorch: pip install torch") from None
    return torch


def is_no_room(error: BaseException) -> bool:
    """Whether an error means that card memory ran out, as worded by the library that noticed it."""
    text = f"{type(error).__name__} {error}".lower()
    return isinstance(error, MemoryError) or any(words in text for words in _OUT_OF_MEMORY_TEXTS)


def _or_no_room(runner: Runner, act: Any) -> Answer:
    """Answer even when the card is full. What was partly built is released, so that others can build."""
    try:
        return {"out_of_memory": False, **act()}
    except Exception as error:
        if not is_no_room(error):
            raise
    runner.park()
    return {"out_of_memory": True}


def _verbs(runner: Runner) -> Mapping[str, Any]:
    def window(request: Mapping[str, Any]) -> StepWindow:
        return StepWindow(*(float(request[name]) for name in ("start_s", "lead_in_s", "length_s", "tail_s")))

    return {
        "hello": lambda _: {"pid": os.getpid(), "now_s": time.monotonic(), **runner.hello()},
        "build": lambda _: _or_no_room(runner, runner.build),
        "run": lambda request: _or_no_room(runner, lambda: runner.run(window(request))),
        "park": lambda _: runner.park(),
        "quit": lambda _: {},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m gpusquad.measure.worker", description=__doc__)
    parser.add_argument("name", help="a workload of the catalogue, or module:attribute")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int, default=None)
    parser.add_argument("--pattern", default="", help="count the lines of the command's output that match")
    parser.add_argument("--command", nargs=argparse.REMAINDER, help="your own program; must come last")
    chosen = parser.parse_args(arguments)
    if chosen.command:
        from gpusquad.measure.commands import Command

        runner: Runner = Command(chosen.command, chosen.pattern)
    else:
        runner = InProcess(find(chosen.name), chosen.device, chosen.batch)
    try:
        serve(_verbs(runner))
    finally:
        runner.park()


if __name__ == "__main__":
    main()
