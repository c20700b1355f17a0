"""Ops of a PyTorch module.

The module runs once on tensors that have shapes but no values, forward and through autograd's own backward. Every op is
recorded with the memory it takes. Needs no weights and no GPU.
"""

from __future__ import annotations

import copy
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch.nn.modules.module import register_module_forward_pre_hook  # pyright: ignore[reportMissingImports]
from torch.utils._python_dispatch import TorchDispatchMode  # pyright: ignore[reportMissingImports]

from gpusquad.model.errors import Invalid
from gpusquad.predict.analytical.aten import ops_of
from gpusquad.predict.analytical.call import Call, Tensor
from gpusquad.predict.analytical.graph import Event, Graph
from gpusquad.predict.analytical.memory import workspace_bytes
from gpusquad.predict.analytical.op import Dtype, Op, Phase
from gpusquad.predict.analytical.torch_cuda import AsOnCuda

DTYPES: dict[Any, Dtype] = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
}
LOW = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16, "bf16": torch.bfloat16, "fp16": torch.float16}
Loss = Callable[..., Any]


def trace(model: Any, sample: Any, precision: str, training: bool, loss: Loss | None = None) -> Graph:
    """Trace one step of ``model(*sample)``. A ``loss`` is called with the output and the last item of the sample.
    Without it, the output itself (or the sum of all its numbers) is differentiated.
    """
    ghost = on_meta(model).train(training)
    given = [_ghost_input(each) for each in (sample if isinstance(sample, (tuple, list)) else (sample,))]
    if precision in ("bf16", "fp16"):
        ghost = ghost.to(LOW[precision])
        given = [each.to(LOW[precision]) if _is_float(each) else each for each in given]
    kept = [*ghost.parameters(), *ghost.buffers(), *(each for each in given if isinstance(each, torch.Tensor))]
    recorder = Recorder(kept, tf32=precision == "tf32")
    low = LOW[precision] if precision.startswith("amp-") else None
    try:
        _run(ghost, given, recorder, training, loss, low)
    except (NotImplementedError, RuntimeError) as error:
        raise Invalid("model", f"cannot be run on shapes alone: {error}") from error
    trained = [each for each in ghost.parameters() if each.requires_grad]
    sizes: Counter[Dtype] = Counter()
    for each in trained:
        sizes[DTYPES.get(each.dtype, "fp32")] += _bytes(each)
    return Graph(
        ops=tuple(recorder.ops),
        events=tuple(recorder.events),
        held=tuple({_key(each): each.untyped_storage().nbytes() for each in kept}.values()),
        parameter_bytes=sizes,
        parameter_tensors=len(trained),
        parameters=sum(each.numel() for each in ghost.parameters()),
        unknown=recorder.unknown,
        batch=next((each.shape[0] for each in given if isinstance(each, torch.Tensor) and each.dim()), 1),
        modules=recorder.modules,
    )


def _run(model: Any, given: Sequence, recorder: Recorder, training: bool, loss: Loss | None, low: Any) -> None:
    with ExitStack() as stack:
        stack.enter_context(torch.device("meta"))
        if not training:
            stack.enter_context(torch.no_grad())
        stack.enter_context(recorder)
        stack.callback(register_module_forward_pre_hook(recorder.enter_module).remove)
        with AsOnCuda(low, recorder.add):
            inputs = given[:-1] if loss is not None else given
            out = model(*inputs)
            if training:
                out = loss(out, given[-1]) if loss is not None else _scalar(out)
        if training:
            recorder.phase = "backward"
            out.backward()


def _scalar(out: Any) -> Any:
    """A scalar to differentiate: a loss as it is, else the sum of all numbers of the outputs."""
    if isinstance(out, torch.Tensor):
        return out if out.dim() == 0 else out.float().sum()
    if hasattr(out, "loss") and isinstance(out.loss, torch.Tensor):
        return out.loss
    parts = out.values() if isinstance(out, dict) else out
    return sum(_scalar(each) for each in parts if each is not None)


def on_meta(model: Any) -> Any:
    """A copy of the module with shapes for weights. Large data is never copied."""
    memo: dict[int, Any] = {}
    for each in (*model.parameters(), *model.buffers()):
        ghost = torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device="meta")
        is_parameter = isinstance(each, torch.nn.Parameter)
        memo[id(each)] = torch.nn.Parameter(ghost, each.requires_grad) if is_parameter else ghost
    return copy.deepcopy(model, memo)


def _ghost_input(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    return value


class Recorder(TorchDispatchMode):
    """Sees every op below autograd, and every allocation and release of storage."""

    def __init__(self, kept: Sequence[Any], tf32: bool) -> None:
        super().__init__()
        self.ops: list[Op] = []
        self.events: list[Event] = []
        self.unknown: Counter[str] = Counter()
        self.phase: Phase = "forward"
        self.modules = 0
        self._tf32 = tf32
        self._alive = {_key(each): 0 for each in kept}
        self._count = 0
        self._watched: dict[int, Any] = {}

    def add(self, op: Op) -> None:
        self.ops.append(op)

    def enter_module(self, *_: Any) -> None:
        self.modules += 1

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.namespace == "aten":
            self._note(func, args, kwargs or {}, out)
        return out

    def _note(self, func: Any, args: tuple, kwargs: dict, out: Any) -> None:
        outputs = [each for each in _flat(out) if isinstance(each, torch.Tensor)]
        made = [each for each in outputs if _key(each) not in self._alive]
        for each in made:
            self._watch(each)
        call = Call(
            name=func._schema.name.removeprefix("aten::"),
            inputs=tuple(_plain(each) for each in _flat((args, kwargs)) if isinstance(each, torch.Tensor)),
            outputs=tuple(_plain(each) for each in outputs),
            args=args,
            kwargs=kwargs,
            phase=self.phase,
            is_view=not made and func.is_view,
            is_pointwise=torch.Tag.pointwise in func.tags,
            tf32=self._tf32,
        )
        ops, known = ops_of(call)
        self.ops += ops
        for op in ops:
            self._borrow(workspace_bytes(op))
        if not known:
            self.unknown[call.name] += 1

    def _borrow(self, size: int) -> None:
        """Workspace for the duration of one op."""
        if size:
            self._count += 1
            self.events += [(self._count, size), (self._count, 0)]

    def _watch(self, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        key, size = _key(tensor), storage.nbytes()
        if not size:
            return
        self._count += 1
        number = self._count
        self._alive[key] = number
        self.events.append((number, size))

        def gone(_: object, key: int = key, number: int = number) -> None:
            if self._alive.get(key) == number:
                del self._alive[key]
            self._watched.pop(number, None)
            self.events.append((number, 0))

        self._watched[number] = weakref.ref(storage, gone)


def _key(tensor: Any) -> int:
    return tensor.untyped_storage()._cdata


def _bytes(tensor: Any) -> int:
    return tensor.numel() * tensor.element_size()


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _plain(tensor: Any) -> Tensor:
    return Tensor(tuple(tensor.shape), tuple(tensor.stride()), tensor.element_size(), DTYPES.get(tensor.dtype))


def _flat(value: Any) -> list:
    if isinstance(value, (tuple, list)):
        return [leaf for each in value for leaf in _flat(each)]
    if isinstance(value, dict):
        return _flat(tuple(value.values()))
    return [value]
