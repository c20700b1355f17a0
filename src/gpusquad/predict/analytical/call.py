"""One call of a PyTorch op: names and shapes, without the framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from gpusquad.predict.analytical.op import Dtype, Kind, Op, Phase


@dataclass(frozen=True, slots=True)
class Tensor:
    """Shape and type of one tensor of a call."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    width: int = 4
    """Bytes per number."""
    dtype: Dtype | None = "fp32"
    """None: not floating point."""

    @property
    def numbers(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes in memory. A dimension that is repeated without being stored costs nothing."""
        return self.width * prod(n for n, stride in zip(self.shape, self.strides, strict=True) if stride)

    @property
    def is_contiguous(self) -> bool:
        expected = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != expected:
                return False
            expected *= n
        return True


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an op of the framework."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    phase: Phase = "forward"
    is_view: bool = False
    is_pointwise: bool = False
    tf32: bool = False
    """Whether products of fp32 matrices may be rounded. Convolutions always may (both as in PyTorch)."""

    @property
    def dtype(self) -> Dtype:
        """Type of the first floating-point tensor. Integers are moved as fast as four-byte floats."""
        for each in (*self.inputs, *self.outputs):
            if each.dtype is not None:
                return each.dtype
        return "fp32"

    @property
    def moved(self) -> tuple[float, float]:
        return float(sum(each.bytes for each in self.inputs)), float(sum(each.bytes for each in self.outputs))


def plain_op(
    call: Call,
    name: str,
    kind: Kind = "vector",
    inner: int | tuple[int, ...] = 1,
    moved: tuple[float, float] | None = None,
    flops_each: float = 1.0,
    kernels: int = 1,
) -> Op:
    """An op that reads its inputs once and writes its outputs once, unless ``moved`` gives other bytes (read, written).

    ``inner``: sizes that its time depends on besides the bytes, such as the length of a row. They are the op's shape.
    """
    read, written = moved or call.moved
    numbers = max((each.numbers for each in (*call.inputs, *call.outputs)), default=0)
    return Op(
        kind,
        flops_each * numbers,
        read,
        written,
        call.dtype,
        (inner,) if isinstance(inner, int) else inner,
        name,
        call.phase,
        1,
        kernels,
    )
