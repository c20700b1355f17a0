"""From one pass to a job: the optimiser's step, gradients between cards, and the number of steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from gpusquad.model.errors import Invalid
from gpusquad.predict.analytical.graph import Event, Graph
from gpusquad.predict.analytical.op import Dtype, Op

_NUMBERS_A_LAUNCH = 320 * 65536
"""A launch over many tensors takes 320 pieces of 65536 numbers (PyTorch's multi_tensor_apply)."""
TENSORS_A_LAUNCH = 60


@dataclass(frozen=True, slots=True)
class Optimiser:
    """What one step does to every parameter, counted in passes over a tensor of its size."""

    states: int
    """Tensors kept for each parameter."""
    reads: int
    writes: int
    passes: int
    spare: int = 0
    """Tensors of the parameters' size that exist only during the step."""


OPTIMISERS = {
    # weight decay; first moment; second moment in two passes; its root, corrected and padded; the step
    "adamw": Optimiser(states=2, reads=12, writes=8, passes=8, spare=1),
    "adam": Optimiser(states=2, reads=11, writes=7, passes=7, spare=1),
    "sgd": Optimiser(states=0, reads=2, writes=1, passes=1),
    "momentum": Optimiser(states=1, reads=5, writes=3, passes=3),
}


_BACKWARD = (
    "layer_norm",
    "batch_norm",
    "group_norm",
    "softmax",
    "log_softmax",
    "max_pool",
    "avg_pool",
    "upsample",
    "gelu",
    "embedding",
)


def forward_of(op: Op) -> Op:
    """The op as it runs in training: batch statistics are computed, not given."""
    return replace(op, name="batch_norm", read_bytes=2 * op.read_bytes) if op.name == "batch_norm_eval" else op


def backward_of(op: Op, of_input: bool = True) -> list[Op]:
    """Backward cost of a forward op, by rule: a product becomes two of its size, and a stream also reads the gradient.
    ``of_input``: whether the gradient of its input is needed, beside that of its weights.
    """
    if not op.kernels:
        return [replace(op, phase="backward")]
    if op.kind == "matmul" and op.name.startswith("lstm"):
        return [
            replace(
                op,
                name=op.name.replace("forward", "backward"),
                flops=2 * op.flops,
                read_bytes=2 * op.read_bytes,
                write_bytes=2 * op.write_bytes,
                phase="backward",
                kernels=2 * op.kernels,
            )
        ]
    if op.kind == "matmul":
        batch, m, n, k = op.shape
        root = op.name.split(".")[0]
        left = replace(op, name=f"{root}.nn", shape=(batch, m, k, n), phase="backward")
        right = replace(op, name=f"{root}.tn", shape=(batch, n, k, m), phase="backward")
        return [left, right] if of_input else [right]
    if op.kind == "conv":
        turned = op.name == "conv.dgrad"
        left = replace(op, name="conv.forward" if turned else "conv.dgrad", phase="backward")
        right = replace(op, name="conv.wgrad", phase="backward")
        return [left, right] if of_input else [right]
    if op.kind == "attention":
        return [
            replace(
                op,
                name="attention.backward",
                flops=2.5 * op.flops,
                read_bytes=5 / 3 * op.read_bytes,
                write_bytes=3 * op.write_bytes,
                phase="backward",
            )
        ]
    if op.name == "bias":
        return [replace(op, kind="reduce", name="sum_channels", write_bytes=0.0, phase="backward")]
    name = op.name.removesuffix("_eval")
    back = f"{name}_backward" if name in _BACKWARD else op.name
    return [
        replace(op, name=back, read_bytes=op.read_bytes + op.write_bytes, write_bytes=op.read_bytes, phase="backward")
    ]


def optimiser_ops(name: str, parameter_bytes: Mapping[Dtype, int], tensors: int) -> list[Op]:
    """One step over all tensors at once, as frameworks do by default."""
    rule = optimiser(name)
    whole = sum(parameter_bytes.values()) or 1
    ops = []
    for dtype, size in parameter_bytes.items():
        numbers, mine = size // (4 if dtype == "fp32" else 2), max(1, round(tensors * size / whole))
        launches = rule.passes * max(ceil(mine / TENSORS_A_LAUNCH), ceil(numbers / _NUMBERS_A_LAUNCH))
        ops.append(
            Op(
                "vector",
                2.0 * rule.passes * numbers,
                float(rule.reads * size),
                float(rule.writes * size),
                dtype,
                (mine,),
                name,
                "optimiser",
                1,
                launches,
            )
        )  # pyright: ignore[reportArgumentType]
    return ops


def optimiser(name: str) -> Optimiser:
    if name not in OPTIMISERS:
        raise Invalid("optimizer", f"is not known: {name!r}; one of {', '.join(OPTIMISERS)}")
    return OPTIMISERS[name]


def optimiser_events(name: str, parameter_bytes: Mapping[Dtype, int], tensors: int) -> list[Event]:
    """Temporary memory that it takes and releases."""
    size = optimiser(name).spare * sum(parameter_bytes.values())
    each = size // max(1, tensors)
    keys = range(-2_000_000, -2_000_000 + (tensors if each else 0))
    return [(key, each) for key in keys] + [(key, 0) for key in keys]


def with_optimiser(graph: Graph, name: str) -> Graph:
    """The step with its optimiser: its ops at the end, its state beside the parameters."""
    sizes, tensors = graph.parameter_bytes, graph.parameter_tensors
    state = optimiser(name).states * sum(sizes.values())
    each = [state // max(1, tensors)] * tensors if state else []
    return replace(
        graph,
        ops=(*graph.ops, *optimiser_ops(name, sizes, tensors)),
        events=(*graph.events, *optimiser_events(name, sizes, tensors)),
        held=(*graph.held, *each),
    )


def gradient_exchange(graph: Graph) -> Op:
    """All gradients exchanged once between the cards of a gang."""
    size = float(graph.trained_bytes)
    return Op("allreduce", 0.0, size, size, name="gradients", phase="communication")


def step_count(steps: int | None, epochs: float | None, data_size: int | None, batch: int, gpus: int) -> int:
    """The given number, or that of ``epochs`` passes over the data, each card with its own batch."""
    if steps is not None:
        return steps
    if epochs is None or data_size is None:
        raise Invalid("steps", "give steps, or both epochs and data_size")
    return ceil(epochs * ceil(data_size / (batch * gpus)))
