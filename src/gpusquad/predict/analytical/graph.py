"""Output of a front end: the ops of one step, its memory events, and its parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpusquad.predict.analytical.op import Dtype, Op, Phase

Event = tuple[int, int]
"""(tensor, bytes): the tensor takes this many bytes from here on. 0 bytes: it is freed."""


@dataclass(frozen=True)
class Graph:
    """A step: forward and, for training, backward. ``training`` adds the optimiser."""

    ops: tuple[Op, ...]
    events: tuple[Event, ...] = ()
    """In the order of the ops."""
    held: tuple[int, ...] = ()
    """Bytes of the parameters, buffers and inputs, which exist before and after the step."""
    parameter_bytes: Mapping[Dtype, int] = field(default_factory=Counter)
    """Bytes of trained parameters, by number type."""
    parameter_tensors: int = 0
    parameters: int = 0
    """Count of numbers in all parameters, trained or not."""
    unknown: Mapping[str, int] = field(default_factory=Counter)
    """Ops without a rule and their number. Each is assumed to read and write its tensors once."""
    batch: int = 1
    modules: int = 0
    """Module calls in the forward pass, which cost host time beside their ops."""

    @property
    def flops(self) -> float:
        return sum(op.flops * op.count for op in self.ops)

    @property
    def trained_bytes(self) -> int:
        return sum(self.parameter_bytes.values())


def names(text: str) -> tuple[str, ...]:
    """Split a list written as prose, which makes long tables easier to read."""
    return tuple(text.split())


def view(phase: Phase = "forward", name: str = "view") -> Op:
    """A view of the same bytes: no work for the card, but the host has to issue it."""
    return Op("copy", 0.0, 0.0, 0.0, name=name, phase=phase, kernels=0)
