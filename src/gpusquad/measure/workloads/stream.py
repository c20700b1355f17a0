"""The memory-bound extreme: ``a = b + s * c`` over arrays far larger than any cache."""

from __future__ import annotations

from typing import Any

from gpusquad.measure.workloads.workload import Step, Workload

ARRAY_BYTES = 2**30
_FLOAT_BYTES = 4


def build(torch: Any, device: str, batch: int) -> Step:
    first, second, total = (torch.randn(ARRAY_BYTES // _FLOAT_BYTES, device=device) for _ in range(3))

    def step() -> None:
        for _ in range(batch):
            torch.add(first, second, alpha=3.0, out=total)

    return step


WORKLOADS = (Workload("stream", "triad over three arrays of 1 GiB: bound by memory", build, batch=4),)
