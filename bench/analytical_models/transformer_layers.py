"""Building blocks of transformer op lists: a model's sizes, how it is run, and layers with their ops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from gpusquad.predict.analytical.op import Dtype, Kind, Op, Phase

Family = Literal["bert", "gpt2", "opt", "switch"]
VALUE_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}
_WARP_SOFTMAX = 1024
"""Rows up to this length stay in registers. Longer ones are read again, half of them from a cache."""


@dataclass(frozen=True, slots=True)
class Transformer:
    """Sizes of a model. ``decoder_layers``, ``experts`` and ``capacity`` apply to the switch family only."""

    family: Family
    layers: int
    hidden: int
    heads: int
    ffn: int
    vocab: int
    head_dim: int = 0
    decoder_layers: int = 0
    experts: int = 0
    capacity: int = 0
    """Tokens of a sequence that an expert takes."""

    @property
    def inner(self) -> int:
        """Width of all heads together."""
        return self.heads * (self.head_dim or self.hidden // self.heads)


@dataclass(frozen=True, slots=True)
class RunConfig:
    """How a model is run."""

    seq_len: int
    batch: int
    training: bool = False
    dtype: Dtype = "fp32"
    fused: bool = False
    tensor_parallel: int = 1
    accumulates: bool = False
    """Gradients are added to those of earlier steps."""


class Builder:
    """Collects ops. In training each forward op adds those of its backward pass."""

    def __init__(self, model: Transformer, run: RunConfig) -> None:
        self.model, self.run = model, run
        self.ops: list[Op] = []
        self.count = 1
        self.parameters = 0.0
        self._value_bytes = VALUE_BYTES[run.dtype]

    # ---- ops of a model

    def linear(self, name: str, rows: int, out: int, into: int, bias: bool = True) -> None:
        self._product(name, (1, rows, out, into))
        self.weights(out * into + (out if bias else 0))
        if self.run.training:
            self._product(name, (1, rows, into, out), "backward")
            self._product(name, (1, out, into, rows), "backward")
            if bias:
                self.stream(f"{name}.bias", rows * out, 1, 0, kind="reduce", phase="backward")

    def product(self, name: str, batch: int, m: int, n: int, k: int) -> None:
        self._product(name, (batch, m, n, k))
        if self.run.training:
            self._product(name, (batch, m, k, n), "backward")
            self._product(name, (batch, k, n, m), "backward")

    def elementwise(self, name: str, values: int, reads: float = 1, writes: float = 1, back: float = 0,
                    times: int = 1) -> None:  # fmt: skip
        """``times`` kernels. ``back``: values that each reads and writes in the backward pass, per value."""
        self.stream(name, values, reads, writes, times=times)
        if self.run.training and back:
            self.stream(name, values, back - 1, 1, phase="backward", times=times)

    def softmax(self, rows: int, length: int) -> None:
        again = 0.5 if length > _WARP_SOFTMAX else 0.0
        self.stream("softmax", rows * length, 1 + again, 1, kind="reduce")
        if self.run.training:
            self.stream("softmax", rows * length, 2 + again, 1, kind="reduce", phase="backward")

    def dropout(self, values: int) -> None:
        """The mask has one byte per value."""
        if self.run.training:
            mask = 1 / self._value_bytes
            self.stream("dropout", values, 1, 1 + mask)
            self.stream("dropout", values, 1 + mask, 1, phase="backward")

    def norm(self, tokens: int, after_add: bool = False) -> None:
        """Layer normalisation, after an add that a compiler merges into the same kernel."""
        values = tokens * self.model.hidden
        fused = after_add and self.run.fused
        self.stream("norm", values, 2 if fused else 1, 2 if fused else 1, kind="reduce")
        self.weights(2 * self.model.hidden)
        if self.run.training:
            self.stream("norm", values, 4, 1, kind="reduce", phase="backward", kernels=2)

    def residual(self, tokens: int) -> None:
        """The add; in backward, the sum of the two gradients."""
        if not self.run.fused:
            self.elementwise("residual", tokens * self.model.hidden, 2, 1, back=3)

    def copy(self, values: int) -> None:
        """Move the heads to the front or back."""
        self.stream("copy", values, 1, 1, kind="copy")
        if self.run.training:
            self.stream("copy", values, 1, 1, kind="copy", phase="backward")

    def embed(self, tokens: int, table: int, shared: bool = False) -> None:
        """Gather. Backward writes a whole table of zeros and adds the rows to it."""
        hidden = self.model.hidden
        self.stream("embed", tokens * hidden, 1, 1, kind="gather")
        if not shared:
            self.weights(table * hidden)
        if self.run.training:
            self.stream("embed", table * hidden, 0, 1, phase="backward")
            self.stream("embed", tokens * hidden, 2, 1, kind="gather", phase="backward", kernels=4)
            if shared:
                self.stream("embed.shared", table * hidden, 2, 1, phase="backward")

    def head(self, tokens: int, bias: bool = False) -> None:
        """Projection onto the vocabulary, and in training the loss."""
        vocab = self.model.vocab // self.run.tensor_parallel
        self.linear("head", tokens, vocab, self.model.hidden, bias)
        if self.run.training:
            self.stream("loss", tokens * vocab, 1, 1, kind="reduce", kernels=2)
            self.stream("loss", tokens * vocab, 2, 2, kind="reduce", phase="backward", kernels=2)

    def meet(self, tokens: int) -> None:
        """Tensor-parallel halves are summed: forward at the end of the layer, backward at its start."""
        if self.run.tensor_parallel > 1:
            message = float(tokens * self.model.hidden * self._value_bytes)
            op = Op("allreduce", 0.0, message, message, self.run.dtype, name="meet", count=self.count)
            self.ops += [op, replace(op, phase="backward")] if self.run.training else [op]

    def wait(self, waits: int) -> None:
        """The host needs a value from the device before it can continue."""
        op = Op("copy", 0.0, 0.0, 0.0, self.run.dtype, name="wait", count=self.count * waits, waits=True)
        self.ops += [op, replace(op, phase="backward")] if self.run.training else [op]

    def gradients(self) -> None:
        """Data-parallel replicas sum their gradients."""
        size = self.parameters * self._value_bytes
        if self.run.accumulates:
            self.ops.append(Op("vector", 0.0, 2 * size, size, self.run.dtype, name="accumulate", phase="backward"))
        self.ops.append(Op("allreduce", 0.0, size, size, self.run.dtype, name="gradients", phase="communication"))

    # ---- helpers

    def stream(self, name: str, values: float, reads: float, writes: float, kind: Kind = "vector",
               phase: Phase = "forward", kernels: int = 1, times: int = 1) -> None:  # fmt: skip
        size = self._value_bytes
        self.ops.append(Op(kind, values, values * reads * size, values * writes * size, self.run.dtype, (), name,
                           phase, self.count * times, kernels))  # fmt: skip

    def _product(self, name: str, shape: tuple[int, int, int, int], phase: Phase = "forward") -> None:
        batch, m, n, k = shape
        size = self._value_bytes
        self.ops.append(Op("matmul", 2.0 * batch * m * n * k, float(batch * (m * k + k * n) * size),
                           float(batch * m * n * size), self.run.dtype, shape, name, phase, self.count))  # fmt: skip

    def weights(self, parameters: int) -> None:
        """Whether gradients are computed."""
        self.parameters += self.count * parameters
