"""What a front end gives: the ops of one step, what happens to the memory meanwhile, and what is trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpusquad.predict.analytical.op import Dtype, Op, Phase

Event = tuple[int, int]
"""(tensor, bytes): it takes so many bytes from here on; none: it is gone."""


@dataclass(frozen=True)
class Graph:
    """A step, forward and (where it trains) backward; without the optimiser, which ``training`` adds."""

    ops: tuple[Op, ...]
    events: tuple[Event, ...] = ()
    """In the order of the ops."""
    held: tuple[int, ...] = ()
    """Bytes of the parameters, buffers and inputs: there before the step and after it."""
    parameter_bytes: Mapping[Dtype, int] = field(default_factory=Counter)
    """Of those that are trained, by type of number."""
    parameter_tensors: int = 0
    parameters: int = 0
    """Numbers in all parameters, trained or not."""
    unknown: Mapping[str, int] = field(default_factory=Counter)
    """Ops no rule knows, and how often: taken to read and write their tensors once."""
    batch: int = 1
    modules: int = 0
    """Calls of modules on the way forward, which cost the host beside the ops in them."""

    @property
    def flops(self) -> float:
        return sum(op.flops * op.count for op in self.ops)

    @property
    def trained_bytes(self) -> int:
        return sum(self.parameter_bytes.values())


def names(text: str) -> tuple[str, ...]:
    """Of a list written as prose, which long tables are easier to read in."""
    return tuple(text.split())


def view(phase: Phase = "forward", name: str = "view") -> Op:
    """Another look at the same bytes: nothing for the card to do, but the host had to say so."""
    return Op("copy", 0.0, 0.0, 0.0, name=name, phase=phase, kernels=0)
