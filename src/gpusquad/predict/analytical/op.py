"""Units of a step: kernels, counted in arithmetic and bytes, not in layers of a framework."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["matmul", "conv", "attention", "vector", "reduce", "gather", "copy", "allreduce"]
Dtype = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"]
"""Type of the arithmetic."""
Phase = Literal["forward", "backward", "optimiser", "communication"]


@dataclass(frozen=True, slots=True)
class Op:
    """The work of one kernel, or of ``count`` equal ones in sequence."""

    kind: Kind
    flops: float
    """Of one kernel, as are the bytes."""
    read_bytes: float
    write_bytes: float
    dtype: Dtype = "fp32"
    shape: tuple[int, ...] = ()
    """matmul: batch, m, n, k. conv: n, cin, h, w, cout, kh, kw, stride, groups. attention: batch times heads, q_len,
    k_len, head_dim. Other kinds need no shape.
    """
    name: str = ""
    phase: Phase = "forward"
    count: int = 1
    kernels: int = 1
    """Launches that the framework makes for it (bias add, split-k …)."""
    waits: bool = False
    """The host reads its result before it issues anything else. The device is idle meanwhile."""

    @property
    def moved_bytes(self) -> float:
        """Memory traffic in both directions."""
        return self.read_bytes + self.write_bytes
