"""Makes a run without a GPU take the code paths of a GPU: autocast, fused attention, dropout, recurrence."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch  # pyright: ignore[reportMissingImports]
from torch.overrides import TorchFunctionMode  # pyright: ignore[reportMissingImports]

from gpusquad.predict.analytical.graph import names
from gpusquad.predict.analytical.op import Dtype, Op

LOWER = frozenset(
    names("""conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution linear matmul
    __matmul__ __rmatmul__ mm bmm mv addmm addmv addbmm baddbmm einsum chain_matmul multi_dot prelu
    scaled_dot_product_attention lstm gru rnn_tanh rnn_relu lstm_cell gru_cell""")
)
"""Autocast runs these in the short type."""
FULL = frozenset(
    names(
        """softmax log_softmax layer_norm group_norm norm cumsum cumprod prod sum exp expm1 log log10 log2 log1p pow
        __pow__ __rpow__ rsqrt reciprocal sinh cosh tan acos asin erfinv softplus cosine_similarity pdist cdist renorm
        logsumexp cross_entropy_loss nll_loss mse_loss l1_loss smooth_l1_loss huber_loss kl_div poisson_nll_loss
        cosine_embedding_loss hinge_embedding_loss margin_ranking_loss triplet_margin_loss soft_margin_loss
        binary_cross_entropy_with_logits multilabel_margin_loss softmin"""
    )
)
"""Autocast runs these in fp32."""
WIDEST = frozenset(
    names("""cat concat concatenate stack addcdiv addcmul atan2 bilinear cross dot index_put
    tensordot grid_sample scatter_add vdot""")
)
"""Autocast runs these in the widest type of their inputs (the lists are in PyTorch's notes on autocast)."""
_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
_ALONG = ("softmax", "log_softmax", "cross_entropy_loss")
_CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


class AsOnCuda(TorchFunctionMode):
    """``low``: the short type of autocast, if it is on."""

    def __init__(self, low: Any, add: Callable[[Op], None]) -> None:
        super().__init__()
        self._low, self._add = low, add
        self._weights: dict[int, tuple[Any, Any]] = {}
        """Weights are cast once while autocast is on."""

    def __enter__(self) -> Any:
        functional = torch.nn.functional
        # Functions written in Python would be seen as one call. Only the calls they make count.
        self._before = {name: getattr(functional, name) for name in _CHECKS if hasattr(functional, name)}
        for name in self._before:
            setattr(functional, name, lambda *_: False)
        return super().__enter__()

    def __exit__(self, *problem: Any) -> None:
        for name, check in self._before.items():
            setattr(torch.nn.functional, name, check)
        self._weights.clear()
        super().__exit__(*problem)

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = dict(kwargs or {})
        if _names_card(kwargs.get("device")):
            kwargs["device"] = "meta"
        name = getattr(func, "__name__", "")
        if name in ("cuda", "to") and args and isinstance(args[0], torch.Tensor):
            args = (args[0], *(each for each in args[1:] if not _names_card(each)))
            if name == "cuda" or (len(args) == 1 and set(kwargs) <= {"device", "non_blocking"}):
                return args[0]
        if self._low is not None:
            if name in _ALONG and (done := self._half_to_float(name, args, kwargs)) is not None:
                return done
            args, kwargs = self._cast(name, args, kwargs)
        replacement = {
            "scaled_dot_product_attention": fused_attention,
            "dropout": fused_dropout,
            **{kind: partial(self._recurrent, gates) for kind, gates in _GATES.items()},
        }.get(name)
        if replacement is not None:
            done = replacement(*args, **kwargs)
            if done is not None:
                return done
        return func(*args, **kwargs)

    def _cast(self, name: str, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        if name in LOWER:
            target = self._low
        elif name in FULL:
            if kwargs.get("dtype") is not None:
                return args, kwargs
            target = torch.float32
        elif name in WIDEST and any(t.dtype == torch.float32 for t in _tensors((args, kwargs))):
            target = torch.float32
        else:
            return args, kwargs
        return self._cast_all(args, target), self._cast_all(kwargs, target)

    def _cast_all(self, value: Any, target: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._cast_one(value, target)
        if isinstance(value, (tuple, list)):
            return type(value)(self._cast_all(each, target) for each in value)
        if isinstance(value, dict):
            return {key: self._cast_all(each, target) for key, each in value.items()}
        return value

    def _cast_one(self, tensor: Any, target: Any) -> Any:
        if not tensor.is_floating_point() or tensor.dtype in (target, torch.float64):
            return tensor
        if not (tensor.is_leaf and tensor.requires_grad and target is self._low and torch.is_grad_enabled()):
            return tensor.to(target)
        if id(tensor) not in self._weights:
            self._weights[id(tensor)] = tensor, tensor.to(target)
        return self._weights[id(tensor)][1]

    def _half_to_float(self, name: str, args: tuple, kwargs: dict) -> Any:
        """Softmax of short numbers under autocast: one kernel reads them and writes floats. None: does not apply."""
        given, *rest = args
        if given.dtype not in (torch.float16, torch.bfloat16) or kwargs.get("dtype") is not None:
            return None
        if name != "cross_entropy_loss":
            along = rest[0] if rest else kwargs.get("dim", -1)
            return HalfToFloat.apply(self._add, name, given.shape[along], given)
        target: Any = rest[0]
        weight, reduction, ignored, smoothing = (*rest[1:], *(None, 1, -100, 0.0)[len(rest) - 1 :])
        if target.is_floating_point() or smoothing:
            return None
        scores = HalfToFloat.apply(self._add, "log_softmax", given.shape[min(1, given.dim() - 1)], given)
        return torch._C._nn.nll_loss_nd(scores, target, weight, reduction, ignored)

    def _recurrent(
        self, gates: int, given: Any, state: Any, weights: Any, biased: bool, layers: int, dropout: float,
        training: bool, both_ways: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        if not isinstance(biased, bool):
            return None  # packed sequences: their lengths are values, which do not exist here
        states = state if isinstance(state, (tuple, list)) else (state,)
        ways, hidden = 1 + both_ways, states[-1].shape[-1]
        batch, length = (given.shape[0], given.shape[1]) if batch_first else (given.shape[1], given.shape[0])
        each, out = len(weights) // (layers * ways), given
        for layer in range(layers):
            mine = weights[layer * ways * each : (layer + 1) * ways * each]
            out = Recurrent.apply(self._add, (batch, length, hidden, ways, gates), out, *mine)
            if dropout and training and layer < layers - 1:
                out = fused_dropout(out, dropout, True)
        return out, *(one.new_empty(one.shape) for one in states)


class HalfToFloat(torch.autograd.Function):
    """Short numbers in and floats out, and the reverse in backward."""

    @staticmethod
    def forward(ctx: Any, add: Callable[[Op], None], name: str, inner: int, given: Any) -> Any:
        out = torch.empty_like(given, dtype=torch.float32)
        ctx.save_for_backward(out)
        ctx.kept = add, name, inner, given.dtype
        add(Op("reduce", 8.0 * out.numel(), _size(given), _size(out), "fp32", (inner,), name))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (out,), (add, name, inner, dtype) = ctx.saved_tensors, ctx.kept
        given = torch.empty_like(out, dtype=dtype)
        add(
            Op(
                "reduce",
                8.0 * out.numel(),
                2 * _size(out),
                _size(given),
                "fp32",
                (inner,),
                f"{name}_backward",
                "backward",
            )
        )
        return None, None, None, given


class Recurrent(torch.autograd.Function):
    """A layer of an LSTM (or similar) as the card's library runs it: one call for the whole sequence."""

    @staticmethod
    def forward(ctx: Any, add: Callable[[Op], None], sizes: tuple, given: Any, *weights: Any) -> Any:
        batch, length, hidden, ways, gates = sizes
        out = given.new_empty((*given.shape[:2], hidden * ways))
        reserve = given.new_empty((gates + 2) * batch * length * hidden * ways)  # gates and cells of every time step
        ctx.save_for_backward(given, out, reserve, *weights)
        ctx.add, ctx.sizes = add, sizes
        add(recurrent_op("forward", sizes, given.shape[-1], _name(given), sum(map(_size, weights))))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        given, _, _, *weights = ctx.saved_tensors
        ctx.add(recurrent_op("backward", ctx.sizes, given.shape[-1], _name(given), sum(map(_size, weights))))
        return None, None, torch.empty_like(given), *(torch.empty_like(each) for each in weights)


def recurrent_op(way: Literal["forward", "backward"], sizes: tuple, wide: int, dtype: Dtype, weight_bytes: int) -> Op:
    """Its shape is that of a product for every time step: length, batch, gates, input and state."""
    batch, length, hidden, ways, gates = sizes
    twice = 2 if way == "backward" else 1
    flops = twice * 2.0 * ways * batch * length * gates * hidden * (wide + hidden)
    moved = twice * 2.0 * batch * length * (wide + (gates + 2) * hidden * ways)
    is_odd = any(each * (4 if dtype == "tf32" else 2) % 16 for each in (wide, hidden))
    return Op(
        "matmul",
        flops,
        moved + length * weight_bytes / 8,
        moved,
        dtype,
        (length, batch, gates * hidden, wide + hidden),
        f"lstm.{way}{'.odd' if is_odd else ''}",
        way,
        ways,
        2 * twice * length,
    )


def fused_attention(
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """The kernel that a card uses: flash for short types without a mask, else memory-efficient. None: neither."""
    if q.dim() != 4 or q.shape[-1] > 256 or q.shape[-1] % 8:
        return None
    if enable_gqa and q.shape[1] != k.shape[1]:
        k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    short = q.dtype in (torch.float16, torch.bfloat16)
    if short and attn_mask is None:
        return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal, scale=scale)[0]
    if attn_mask is not None:
        attn_mask = attn_mask.to(q.dtype).expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    keep = torch.is_grad_enabled() and any(each.requires_grad for each in (q, k, v))
    return torch.ops.aten._scaled_dot_product_efficient_attention(
        q, k, v, attn_mask, keep, dropout_p, is_causal, scale=scale
    )[0]


def fused_dropout(given: Any, p: float = 0.5, train: bool = True, *_: Any) -> Any:
    if not train or not 0 < p < 1:
        return given
    return torch.native_dropout(given, p, True)[0]


def _names_card(value: Any) -> bool:
    if isinstance(value, torch.device):
        value = value.type
    return isinstance(value, str) and value.split(":")[0] in ("cuda", "cpu")


def _tensors(value: Any) -> list:
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = tuple(value.values())
    return [leaf for each in value for leaf in _tensors(each)] if isinstance(value, (tuple, list)) else []


def _size(tensor: Any) -> int:
    return tensor.numel() * tensor.element_size()


def _name(tensor: Any) -> Dtype:
    return "fp16" if tensor.dtype == torch.float16 else "bf16" if tensor.dtype == torch.bfloat16 else "tf32"
