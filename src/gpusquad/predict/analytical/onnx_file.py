"""Ops of an ONNX file: forward as in the file, backward by rule. Also used for Keras and TensorFlow models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from gpusquad.model.errors import Invalid
from gpusquad.predict.analytical.graph import Event, Graph, names, view
from gpusquad.predict.analytical.memory import workspace_bytes
from gpusquad.predict.analytical.op import Dtype, Kind, Op
from gpusquad.predict.analytical.training import backward_of, forward_of

VIEWS = frozenset(
    names("""Reshape Flatten Squeeze Unsqueeze Identity Shape Size Constant ConstantOfShape Dropout Range Expand
    CastLike StopGradient""")
)
STREAMS: Mapping[str, tuple[Kind, str, float]] = {
    **dict.fromkeys(
        names(
            """Add Sub Mul Div Pow Sqrt Exp Log Neg Abs Relu LeakyRelu PRelu Elu Selu Sigmoid HardSigmoid HardSwish Tanh
            Erf Clip Min Max Where Equal Greater Less GreaterOrEqual LessOrEqual And Or Not Mod Reciprocal Sin Cos
            Softplus Softsign Mish Swish Sign Floor Ceil Round ThresholdedRelu Celu BitShift Sum Mean IsNaN Trilu"""
        ),
        ("vector", "pointwise", 2.0),
    ),
    "Gelu": ("vector", "gelu", 20.0),
    "Cast": ("copy", "cast", 0.0),
    **dict.fromkeys(names("Transpose DepthToSpace SpaceToDepth"), ("copy", "transpose", 0.0)),
    **dict.fromkeys(names("Concat Split Slice Pad Tile"), ("copy", "cat", 0.0)),
    **dict.fromkeys(
        names("Gather GatherElements GatherND ScatterND ScatterElements OneHot"), ("gather", "embedding", 0.0)
    ),
    **dict.fromkeys(names("Resize Upsample"), ("vector", "upsample", 4.0)),
    "MaxPool": ("vector", "max_pool", 4.0),
    **dict.fromkeys(names("AveragePool LpPool"), ("vector", "avg_pool", 4.0)),
    "BatchNormalization": ("reduce", "batch_norm_eval", 4.0),
    **dict.fromkeys(
        names("LayerNormalization SimplifiedLayerNormalization RMSNormalization"), ("reduce", "layer_norm", 8.0)
    ),
    **dict.fromkeys(names("InstanceNormalization GroupNormalization"), ("reduce", "group_norm", 8.0)),
    "Softmax": ("reduce", "softmax", 8.0),
    "LogSoftmax": ("reduce", "log_softmax", 8.0),
    **dict.fromkeys(
        names("""ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ReduceL2 ReduceL1 ReduceSumSquare ReduceLogSumExp
        ArgMax ArgMin GlobalAveragePool GlobalMaxPool CumSum TopK"""),
        ("reduce", "sum_inner", 1.0),
    ),
}
"""Reads its tensors once and writes its results once: kind, measured family, arithmetic per number."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Width of the numbers and their arithmetic type."""

    product: Dtype
    conv: Dtype
    vector: Dtype
    width: int
    weight_width: int


def from_onnx(
    source: str | Path | bytes | Any, batch: int | None = None, precision: str = "fp32", training: bool = False
) -> Graph:
    """``source``: a path, the bytes of a file, or a loaded model. ``batch`` replaces a first dimension that the file
    leaves open (default 1).
    """
    model = _load(source)
    size = _fix_batch(model, batch)
    reader = _Reader(_inferred(model).graph, _numbers(precision))
    return reader.graph(size, training)


def _load(source: Any) -> Any:
    onnx = _onnx()
    if hasattr(source, "graph"):
        copy = onnx.ModelProto()
        copy.CopyFrom(source)
        return copy
    if isinstance(source, bytes):
        return onnx.load_from_string(source)
    return onnx.load(str(source), load_external_data=False)


def _onnx() -> Any:
    try:
        import onnx  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("reading ONNX files needs the package onnx: pip install onnx") from error
    return onnx


def _inferred(model: Any) -> Any:
    import onnx.shape_inference  # pyright: ignore[reportMissingImports]

    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def _fix_batch(model: Any, batch: int | None) -> int:
    """Set open dimensions. The batch is the first dimension of the first input."""
    weights = {each.name for each in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in weights]
    if not inputs:
        raise Invalid("model", "has no inputs")
    found = 0
    for each in inputs:
        for place, dim in enumerate(each.type.tensor_type.shape.dim):
            if dim.dim_value <= 0:
                dim.dim_value = (batch or 1) if place == 0 else 1
            elif place == 0 and each is inputs[0] and batch not in (None, dim.dim_value):
                raise Invalid("batch", f"the file fixes it at {dim.dim_value}")
            if place == 0 and each is inputs[0]:
                found = dim.dim_value
    for each in (*model.graph.output, *model.graph.value_info):  # earlier inferred shapes are no longer valid
        each.type.tensor_type.ClearField("shape")
    return found or 1


def _numbers(precision: str) -> Numbers:
    if precision in ("fp32", "tf32"):
        return Numbers("tf32" if precision == "tf32" else "fp32", "tf32", "fp32", 4, 4)
    low: Dtype = "fp16" if precision.endswith("fp16") else "bf16"
    return Numbers(low, low, low, 2, 4 if precision.startswith("amp-") else 2)


class _Reader:
    """One graph, the shapes of its values, and its weights."""

    def __init__(self, graph: Any, numbers: Numbers) -> None:
        self._graph, self._numbers = graph, numbers
        self._weights = {each.name: tuple(each.dims) for each in graph.initializer}
        self._shapes: dict[str, tuple[int, ...]] = dict(self._weights)
        for each in (*graph.input, *graph.value_info, *graph.output):
            if each.type.tensor_type.HasField("shape"):
                self._shapes[each.name] = tuple(max(1, d.dim_value) for d in each.type.tensor_type.shape.dim)
        self._same: dict[str, str] = {}
        for node in graph.node:
            if node.op_type in VIEWS and node.input and node.output:
                self._same[node.output[0]] = self._root(node.input[0])
        self.unknown: Counter[str] = Counter()

    def _root(self, name: str) -> str:
        """The value whose bytes a view shows."""
        return self._same.get(name, name)

    def graph(self, batch: int, training: bool) -> Graph:
        steps = [(node, self._ops(node)) for node in self._graph.node]
        trained = {name: shape for name, shape in self._weights.items() if self._is_trained(name, shape)}
        ops = [forward_of(op) if training else op for _, each in steps for op in each]
        if training:
            ops += _backward([each for _, each in steps])
        parameters = sum(map(prod, trained.values()))
        held = [self._bytes(each.name) for each in self._graph.input if each.name not in self._weights]
        held += [self._bytes(name) for name in self._weights]
        dtype = self._numbers.vector if self._numbers.weight_width == 2 else "fp32"
        return Graph(
            ops=tuple(ops),
            events=tuple(self._events(steps, trained, training)),
            held=tuple(held),
            parameter_bytes={dtype: parameters * self._numbers.weight_width},
            parameter_tensors=len(trained),
            parameters=parameters,
            unknown=self.unknown,
            batch=batch,
        )

    def _is_trained(self, name: str, shape: Sequence[int]) -> bool:
        types = {each.name: each.data_type for each in self._graph.initializer}
        return types[name] in (1, 10, 11, 16) and bool(shape)  # floats of every width; no scalars

    def _events(self, steps: Sequence[tuple[Any, list[Op]]], trained: Mapping[str, Any], training: bool) -> list[Event]:
        """Results live until their last use, in training until their backward step. Gradients of weights stay."""
        events: list[Event] = []
        keys = {name: index + 1 for index, name in enumerate(self._made(steps))}
        last = {self._root(name): at for at, (node, _) in enumerate(steps) for name in node.input}
        results = {self._root(each.name) for each in self._graph.output}
        alive: set[str] = set()
        for at, (node, ops) in enumerate(steps):
            for name in node.output:
                if name in keys:
                    alive.add(name)
                    events.append((keys[name], self._bytes(name)))
            for op in ops:
                events += _borrowed(op)
            if not training:
                near = {self._root(name) for name in (*node.input, *node.output)} & alive - results
                gone = {name for name in near if last.get(name, at) <= at}
                alive -= gone
                events += [(keys[name], 0) for name in sorted(gone)]
        return events + self._events_back(steps, trained, keys, alive) if training else events

    def _events_back(
        self,
        steps: Sequence[tuple[Any, list[Op]]],
        trained: Mapping[str, Any],
        keys: Mapping[str, int],
        alive: set[str],
    ) -> list[Event]:
        events: list[Event] = []
        gradients: dict[str, int] = {}
        count = 10 * len(keys) + 10

        def take(name: str) -> None:
            nonlocal count
            if name not in gradients:
                count += 1
                gradients[name] = count
                events.append((count, self._bytes(name)))

        for node, ops in reversed(steps):
            for name in map(self._root, (*node.output, *node.input)):
                if name in keys or name in trained:
                    take(name)
            for op in ops:
                events += _borrowed(op)
            for name in node.output:
                if name in alive:
                    alive.discard(name)
                    events += [(keys[name], 0), (gradients[name], 0)]
        return events

    def _made(self, steps: Sequence[tuple[Any, list[Op]]]) -> list[str]:
        """Values that take memory of their own."""
        return [name for node, _ in steps if node.op_type not in VIEWS for name in node.output if name in self._shapes]

    def _bytes(self, name: str) -> int:
        width = self._numbers.weight_width if name in self._weights else self._numbers.width
        return prod(self._shapes.get(name, ())) * width

    def _ops(self, node: Any) -> list[Op]:
        kind = node.op_type
        if kind in VIEWS:
            return [view()]
        inputs = [self._shapes[name] for name in node.input if name in self._shapes]
        outputs = [self._shapes[name] for name in node.output if name in self._shapes]
        if kind in ("Gemm", "MatMul", "FusedMatMul") and len(inputs) >= 2:
            return [self._matmul(node, inputs, outputs)]
        if kind in ("Conv", "ConvTranspose") and len(inputs) >= 2 and outputs:
            return self._conv(node, inputs, outputs[0])
        if kind in ("LSTM", "GRU", "RNN") and len(inputs) >= 3:
            return [self._recurrent(node, inputs)]
        if kind in ("Attention", "MultiHeadAttention") and len(inputs) >= 3:
            return [self._attention(inputs)]
        if kind not in STREAMS:
            self.unknown[kind] += 1
        return [self._stream(*STREAMS.get(kind, ("vector", "pointwise", 1.0)), inputs, outputs)]

    def _stream(self, kind: Kind, name: str, flops_each: float, inputs: list, outputs: list) -> Op:
        width, written = self._numbers.width, sum(map(prod, outputs))
        read = written if kind == "gather" else sum(map(prod, inputs))
        main: Sequence[int] = max((*inputs, *outputs), key=prod, default=[1])
        images = name in ("batch_norm_eval", "group_norm") and len(main) > 2
        shape = (main[1], prod(main[2:])) if images else (main[-1] if main else 1,)
        return Op(
            kind,
            flops_each * max(read, written),
            float(width * read),
            float(width * written),
            self._numbers.vector,
            shape,
            name,
        )

    def _matmul(self, node: Any, inputs: list, outputs: list) -> Op:
        left, right = (list(each) for each in inputs[:2])
        turned_left, turned_right = _integer(node, "transA"), _integer(node, "transB")
        if turned_left:
            left[-2:] = reversed(left[-2:])
        if turned_right:
            right[-2:] = reversed(right[-2:])
        left = [1, *left] if len(left) == 1 else left
        right = [*right, 1] if len(right) == 1 else right
        m, k, n = left[-2], left[-1], right[-1]
        batch = max(prod(left[:-2]), prod(right[:-2]))
        if len(right) == 2:  # a layer with weights: rows of all batches together
            batch, m = 1, batch * m
        width = self._numbers.width
        layout = ("t" if turned_left else "n") + ("t" if turned_right or batch == 1 else "n")
        return Op(
            "matmul",
            2.0 * batch * m * n * k,
            float(width * (prod(left) + prod(right))),
            float(width * batch * m * n),
            self._numbers.product,
            (batch, m, n, k),
            f"{'bmm' if batch > 1 else 'matmul'}.{layout}",
        )

    def _conv(self, node: Any, inputs: list, out: Sequence[int]) -> list[Op]:
        image, weight = inputs[:2]
        turned = node.op_type == "ConvTranspose"
        small, large = (image, out) if turned else (out, image)
        groups, stride = _integer(node, "group", 1), max(_integers(node, "strides") or [1])
        *depth, height, wide = (1, *large[2:]) if len(large) == 3 else large[2:]
        *kernel, last = (1, *weight[2:]) if len(weight) == 3 else weight[2:]
        shape = (large[0] * prod(depth), large[1], height, wide, small[1], prod(kernel), last, stride, groups)
        flops = 2.0 * prod(small) * large[1] * prod(weight[2:]) / groups
        width = self._numbers.width
        ops = [
            Op(
                "conv",
                flops,
                float(width * (prod(image) + prod(weight))),
                float(width * prod(out)),
                self._numbers.conv,
                shape,
                "conv.dgrad" if turned else "conv.forward",
            )
        ]
        if len(inputs) > 2:
            ops.append(
                Op(
                    "vector",
                    float(prod(out)),
                    float(width * prod(out)),
                    float(width * prod(out)),
                    self._numbers.vector,
                    (out[1],),
                    "bias",
                )
            )
        return ops

    def _recurrent(self, node: Any, inputs: list) -> Op:
        given, weight, state = inputs[:3]
        length, batch = given[:2]
        ways, gates, wide = weight
        width = self._numbers.width
        moved = 2.0 * width * batch * length * (wide + gates * ways)
        return Op(
            "matmul",
            2.0 * ways * batch * length * gates * (wide + state[-1]),
            moved,
            moved,
            self._numbers.conv,
            (length, batch, gates, wide + state[-1]),
            "lstm.forward",
            count=ways,
            kernels=2 * length,
        )

    def _attention(self, inputs: list) -> Op:
        q, k, v = inputs[:3]
        heads, each = (prod(q[:-2]), q[-1]) if len(q) == 4 else (q[0] * max(1, q[-1] // 64), min(64, q[-1]))
        width = self._numbers.width
        return Op(
            "attention",
            4.0 * heads * q[-2] * k[-2] * each,
            float(width * (prod(q) + prod(k) + prod(v))),
            float(width * prod(q)),
            self._numbers.product,
            (heads, q[-2], k[-2], each),
            "attention.forward",
        )


def _backward(steps: Sequence[Sequence[Op]]) -> list[Op]:
    """In reverse. The gradient of the very first input is never needed."""
    first = next((index for index, ops in enumerate(steps) if any(op.kind in ("conv", "matmul") for op in ops)), -1)
    return [
        back
        for index in reversed(range(len(steps)))
        for op in reversed(steps[index])
        for back in backward_of(op, of_input=index != first)
    ]


def _borrowed(op: Op) -> list[Event]:
    size = workspace_bytes(op)
    return [(-1_000_000, size), (-1_000_000, 0)] if size else []


def _integer(node: Any, name: str, default: int = 0) -> int:
    return next((each.i for each in node.attribute if each.name == name), default)


def _integers(node: Any, name: str) -> list[int]:
    return next((list(each.ints) for each in node.attribute if each.name == name), [])
