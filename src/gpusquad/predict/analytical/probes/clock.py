"""Times kernels alone: the stream is blocked until all of them are queued, so that the host's pace does not matter."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

WARM_UPS = 2
MAX_CALLS = 20
MEASURE_US = 6000.0
"""Approximate time of one reading."""
CYCLES_PER_US = 2000
"""Of a fast card. A slower card is blocked a little longer."""


class DeviceTimer:
    """Device time of the kernels that one function queues."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.issue_us = 0.0
        """Host time of one call when it was last timed."""

    def us(self, call: Callable[[], Any], readings: int = 3) -> float:
        """Device time of one call, in a row of equal ones."""
        torch = self._torch
        for _ in range(WARM_UPS):
            call()
        torch.cuda.synchronize()
        began = time.perf_counter()
        call()
        issue_us = 1e6 * (time.perf_counter() - began)
        torch.cuda.synchronize()
        whole_us = max(1.0, 1e6 * (time.perf_counter() - began))
        calls = max(2, min(MAX_CALLS, round(MEASURE_US / whole_us)))
        found = [self._reading(call, calls, issue_us) for _ in range(readings)]
        self.issue_us = median(issued for _, issued in found)
        return median(us for us, _ in found)

    def free_issue_us(self, call: Callable[[], Any], readings: int = 3) -> float:
        """Host time of one call while the card consumes its launches. For calls with more kernels than fit into the
        queue.
        """
        found = []
        for _ in range(readings):
            self._torch.cuda.synchronize()
            began = time.perf_counter()
            call()
            found.append(1e6 * (time.perf_counter() - began))
        return median(found)

    def _reading(self, call: Callable[[], Any], calls: int, issue_us: float) -> tuple[float, float]:
        """Times of the card and of the host."""
        torch = self._torch
        torch.cuda._sleep(round(CYCLES_PER_US * (200 + 1.5 * calls * issue_us)))
        self._begin.record()
        began = time.perf_counter()
        for _ in range(calls):
            call()
        issued_us = 1e6 * (time.perf_counter() - began) / calls
        self._end.record()
        torch.cuda.synchronize()
        return 1e3 * self._begin.elapsed_time(self._end) / calls, issued_us

    def warm_up(self) -> None:
        """Run until the card's clocks are up."""
        torch = self._torch
        square = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        began = time.perf_counter()
        while time.perf_counter() - began < 0.5:
            torch.mm(square, square)
            torch.cuda.synchronize()

    def bandwidth(self) -> float:
        """Bytes per second of a large copy, read and written."""
        torch = self._torch
        source = torch.randn(1 << 28, device="cuda")
        target = torch.empty_like(source)
        return 2 * 4 * source.numel() / self.us(lambda: target.copy_(source)) * 1e6

    def product_flops(self, dtype: str) -> float:
        """FLOP/s of a large product."""
        torch, size = self._torch, 8192
        with arithmetic(torch, dtype) as kind:
            square = torch.randn(size, size, device="cuda", dtype=kind)
            return 2 * size**3 / self.us(lambda: square @ square) * 1e6

    def launch_us(self) -> float:
        """Time of an empty kernel, including the gap."""
        one = self._torch.zeros(1, device="cuda")
        return self.us(lambda: one.add_(1.0))


class arithmetic:
    """Context in which products of floats use this arithmetic. Yields the type for the tensors."""

    def __init__(self, torch: Any, dtype: str) -> None:
        self._torch, self._dtype = torch, dtype

    def __enter__(self) -> Any:
        matmul, cudnn = self._torch.backends.cuda.matmul, self._torch.backends.cudnn
        self._before = matmul.allow_tf32, cudnn.allow_tf32
        matmul.allow_tf32 = cudnn.allow_tf32 = self._dtype == "tf32"
        torch = self._torch
        return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self._dtype, torch.float32)

    def __exit__(self, *_: object) -> None:
        matmul, cudnn = self._torch.backends.cuda.matmul, self._torch.backends.cudnn
        matmul.allow_tf32, cudnn.allow_tf32 = self._before
