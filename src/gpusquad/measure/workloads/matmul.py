"""The compute-bound extreme: products of square bf16 matrices."""

from __future__ import annotations

from typing import Any

from gpusquad.measure.workloads.workload import Step, Workload

SIDE = 4096


def build(torch: Any, device: str, batch: int) -> Step:
    first, second, product = (torch.randn(SIDE, SIDE, device=device).to(torch.bfloat16) for _ in range(3))

    def step() -> None:
        for _ in range(batch):
            torch.mm(first, second, out=product)

    return step


WORKLOADS = (Workload("matmul", "bf16 products of 4096 by 4096: bound by arithmetic", build, batch=16),)
