"""What PyTorch's ops are in arithmetic and bytes. Knows their names and shapes, not the framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from gpusquad.predict.analytical.graph import names, view
from gpusquad.predict.analytical.op import Dtype, Kind, Op, Phase


@dataclass(frozen=True, slots=True)
class Tensor:
    """Of one that takes part in an op."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    width: int = 4
    """Bytes of a number."""
    dtype: Dtype | None = "fp32"
    """None: not floating point."""

    @property
    def numbers(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """In memory: a dimension that is repeated without being stored costs nothing."""
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
    """One op as the framework was asked for it."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    phase: Phase = "forward"
    is_view: bool = False
    is_pointwise: bool = False
    tf32: bool = False
    """Whether products of fp32 matrices may be rounded; convolutions always may (both as in PyTorch)."""

    @property
    def dtype(self) -> Dtype:
        """Of the first floating-point tensor; whole numbers are moved as fast as floats of four bytes."""
        for each in (*self.inputs, *self.outputs):
            if each.dtype is not None:
                return each.dtype
        return "fp32"

    @property
    def moved(self) -> tuple[float, float]:
        return float(sum(each.bytes for each in self.inputs)), float(sum(each.bytes for each in self.outputs))


Rule = Callable[[Call], list[Op]]
FREE = frozenset(
    names(
        """empty empty_like empty_strided new_empty new_empty_strided detach alias lift_fresh _unsafe_view resize_
        set_ is_same_size sym_size sym_stride sym_numel _reshape_alias t transpose_ unsafe_split
        _has_compatible_shallow_copy_type _local_scalar_dense"""
    )
)
"""Neither the card nor (noticeably) the host has to do anything."""


def ops_of(call: Call) -> tuple[list[Op], bool]:
    """The work of a call, and whether a rule is known for it."""
    name = call.name.rstrip("_") or call.name
    if call.name in FREE or name in FREE:
        return [], True
    if call.is_view:
        return [view(call.phase)], True
    rule = RULES.get(call.name) or RULES.get(name)
    if rule is not None:
        return rule(call), True
    return [_plain(call, "pointwise")], call.is_pointwise


def _plain(
    call: Call,
    name: str,
    kind: Kind = "vector",
    inner: int | tuple[int, ...] = 1,
    moved: tuple[float, float] | None = None,
    flops_each: float = 1.0,
    kernels: int = 1,
) -> Op:
    """Reads its inputs once and writes its outputs once."""
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


def _pointwise(call: Call) -> list[Op]:
    return [_plain(call, "pointwise")]


def family(name: str, kind: Kind = "vector", flops_each: float = 4.0) -> Rule:
    """Streams its tensors, with some arithmetic, as measured under that name."""
    return lambda call: [_plain(call, name, kind, flops_each=flops_each)]


# --- matrix products -------------------------------------------------------------------------------------------------


def _matmul(call: Call) -> list[Op]:
    left, right = call.inputs[-2:] if call.name.startswith(("addmm", "baddbmm", "addbmm", "addmv")) else call.inputs[:2]
    if len(right.shape) == 1:
        right = Tensor((*right.shape, 1), (*right.strides, 1), right.width, right.dtype)
    if len(left.shape) == 1:
        left = Tensor((1, *left.shape), (left.shape[0], *left.strides), left.width, left.dtype)
    batch = prod(left.shape[:-2])
    m, k, n = *left.shape[-2:], right.shape[-1]
    out = call.outputs[0]
    is_odd = any(_lead(each) * each.width % 16 for each in (left, right, out))
    layout = ("t" if _is_turned(left) else "n") + ("t" if _is_turned(right) else "n")
    name = f"bmm.{layout}" if len(left.shape) > 2 else f"matmul.{layout}{'.odd' if is_odd else ''}"
    dtype = "tf32" if left.dtype == "fp32" and call.tf32 else left.dtype or "fp32"
    return [
        Op(
            "matmul",
            2.0 * batch * m * n * k,
            float(left.bytes + right.bytes),
            float(out.width * batch * m * n),
            dtype,
            (batch, m, n, k),
            name,
            call.phase,
        )
    ]


def _is_turned(matrix: Tensor) -> bool:
    rows, columns = matrix.strides[-2:]
    return columns != 1 and rows == 1


def _lead(matrix: Tensor) -> int:
    """Numbers from the start of a row (as stored) to the next."""
    if len(matrix.shape) < 2:
        return 8
    return max(matrix.strides[-2:]) or 8


# --- convolutions ----------------------------------------------------------------------------------------------------


def _convolution(call: Call) -> list[Op]:
    image, weight = call.inputs[:2]
    stride, turned, groups = call.args[3], call.args[6], call.args[8]
    out = call.outputs[0]
    ops = [_conv(call, "dgrad" if turned else "forward", image, weight, out, stride, turned, groups)]
    if len(call.inputs) > 2:  # the bias is added in a kernel of its own
        ops.append(
            Op(
                "vector",
                float(out.numbers),
                float(out.bytes),
                float(out.bytes),
                _moved_as(out),
                (out.shape[1],),
                "bias",
                call.phase,
                kernels=1,
            )
        )
    return ops


def _moved_as(tensor: Tensor) -> Dtype:
    return "fp32" if tensor.width == 4 else "bf16"


def _convolution_backward(call: Call) -> list[Op]:
    gradient, image, weight = call.inputs[:3]
    stride, turned, groups, mask = call.args[4], call.args[7], call.args[9], call.args[10]
    ops = []
    if mask[0]:
        ops.append(_conv(call, "forward" if turned else "dgrad", image, weight, gradient, stride, turned, groups))
    if mask[1]:
        ops.append(_conv(call, "wgrad", image, weight, gradient, stride, turned, groups))
    if mask[2]:
        ops.append(
            Op(
                "reduce",
                float(gradient.numbers),
                float(gradient.bytes),
                4.0 * weight.shape[0],
                _moved_as(gradient),
                (gradient.shape[1],),
                "sum_channels",
                call.phase,
            )
        )
    return ops


def _conv(
    call: Call, way: str, image: Tensor, weight: Tensor, out: Tensor, stride: Any, turned: bool, groups: int
) -> Op:
    """A transposed one is the input's gradient of the one it mirrors."""
    if turned:
        image, out = out, image
    batch, cin, *sides = image.shape
    cout, kernel = out.shape[1], weight.shape[2:]
    if len(sides) == 1:
        sides, kernel = [1, *sides], (1, *kernel)
    depth = prod(sides[:-2])  # of volumes: as so many images
    height, width = sides[-2:]
    kh, kw = prod(kernel[:-1]), kernel[-1]
    flops = 2.0 * out.numbers * cin * kh * kw / groups
    parts = {"forward": (image, weight, out), "dgrad": (out, weight, image), "wgrad": (out, image, weight)}[way]
    dtype = "tf32" if image.dtype == "fp32" else image.dtype or "fp32"
    shape = (batch * depth, cin, height, width, cout, kh, kw, max(stride), groups)
    return Op(
        "conv",
        flops,
        float(parts[0].bytes + parts[1].bytes),
        float(parts[2].bytes),
        dtype,
        shape,
        f"conv.{way}",
        call.phase,
    )


# --- attention -------------------------------------------------------------------------------------------------------


def _attention(call: Call) -> list[Op]:
    q, k, v = call.inputs[:3]
    return [_fused(call, "forward", q, k, v, 4.0, (q, k, v), call.outputs[:1])]


def _attention_backward(call: Call) -> list[Op]:
    gradient, q, k, v = call.inputs[:4]
    return [_fused(call, "backward", q, k, v, 10.0, (gradient, q, k, v, q), call.outputs[:3])]


def _fused(
    call: Call,
    way: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    times: float,
    read: Sequence[Tensor],
    written: Sequence[Tensor],
) -> Op:
    heads, q_len, width = prod(q.shape[:2]), q.shape[2], q.shape[3]
    causal = (any(each is True for each in call.args) and "flash" in call.name) or _efficient_causal(call)
    flops = times * heads * q_len * k.shape[2] * width / (2 if causal else 1)
    return Op(
        "attention",
        flops,
        float(sum(t.bytes for t in read)),
        float(sum(t.bytes for t in written)),
        call.dtype,
        (heads, q_len, k.shape[2], width),
        f"attention.{way}{'.causal' if causal else ''}",
        call.phase,
    )


def _efficient_causal(call: Call) -> bool:
    """Its third flag: forward (…, keep the sums, dropout, causal), backward (…, dropout, gradient mask, causal)."""
    flags = [each for each in call.args if isinstance(each, bool)]
    return "efficient" in call.name and len(flags) > 1 and flags[-1]


# --- along rows, by index, between layouts ---------------------------------------------------------------------------


def _times(name: str, factor: float, channel: Callable[[Tensor], int], kind: Kind = "reduce") -> Rule:
    """Passes over its first tensor, so many in all."""

    def rule(call: Call) -> list[Op]:
        main = call.inputs[0]
        one = factor * main.bytes
        return [_plain(call, name, kind, channel(main), (0.6 * one, 0.4 * one), 8.0)]

    return rule


def _last(tensor: Tensor) -> int:
    return tensor.shape[-1] if tensor.shape else 1


def _image(tensor: Tensor) -> tuple[int, int]:
    """Channels, and pixels of one."""
    return _channel(tensor), max(1, prod(tensor.shape[2:]))


def _channel(tensor: Tensor) -> int:
    return tensor.shape[1] if len(tensor.shape) > 1 else 1


def _layer_norm(call: Call) -> list[Op]:
    main = call.inputs[0]
    name, factor = ("layer_norm_backward", 3) if "backward" in call.name else ("layer_norm", 2)
    shape = call.args[2] if "backward" in call.name else call.args[1]
    one = float(factor * main.bytes)
    return [_plain(call, name, "reduce", prod(shape), (0.6 * one, 0.4 * one), 8.0, 2 if factor == 3 else 1)]


def _batch_norm(call: Call) -> list[Op]:
    main = call.inputs[0]
    # Training or not is the one flag of these calls; variants without it are for training.
    trains = next((each for each in call.args if isinstance(each, bool)), True) and "no_training" not in call.name
    name, factor = ("batch_norm", 3) if trains else ("batch_norm_eval", 2)
    one = float(factor * main.bytes)
    return [_plain(call, name, "reduce", _image(main), (0.6 * one, 0.4 * one), 8.0)]


def _sum(call: Call) -> list[Op]:
    given, out = call.inputs[0], call.outputs[0]
    if out.numbers == 1:
        name, inner = "sum_all", 1
    elif (
        given.shape and out.numbers % given.shape[-1] == 0 and (len(out.shape) == 0 or out.shape[-1] == given.shape[-1])
    ):
        name, inner = "sum_rows", given.shape[-1]
    else:
        name, inner = "sum_inner", max(1, given.numbers // max(1, out.numbers))
    return [_plain(call, name, "reduce", inner)]


def _copy(call: Call) -> list[Op]:
    source, target = call.inputs[-1] if call.name == "copy_" else call.inputs[0], call.outputs[0]
    moved = (float(source.bytes), float(target.bytes))
    if source.dtype != target.dtype or source.width != target.width:
        name = "cast"
    elif source.strides == target.strides or (source.is_contiguous and target.is_contiguous):
        name = "copy"
    elif source.strides and source.strides[-1] == (target.strides[-1] if target.strides else 1):
        name = "permute"
    else:
        name = "transpose"
    return [_plain(call, name, "copy", _last(source), moved, 0.0)]


def _max_pool(call: Call) -> list[Op]:
    back = "backward" in call.name
    kernel, *rest = call.args[2 if back else 1 :]
    stride = (rest[0] if rest else None) or kernel
    image = call.outputs[0] if back else call.inputs[0]
    out = call.inputs[0] if back else call.outputs[0]
    moved = float(image.bytes + out.bytes + 8 * out.numbers)
    inner = max(1, prod(kernel) // max(stride))
    return [_plain(call, "max_pool_backward" if back else "max_pool", "vector", inner, (moved / 2, moved / 2))]


def _embedding_backward(call: Call) -> list[Op]:
    given, out = call.inputs[0], call.outputs[0]
    return [
        _plain(
            call,
            "embedding_backward",
            "gather",
            (out.shape[0], given.numbers // out.shape[-1]),
            (float(given.bytes), float(out.bytes)),
            kernels=4,
        )
    ]


def _gather(call: Call) -> list[Op]:
    """Only what is picked is read."""
    out = float(sum(each.bytes for each in call.outputs))
    return [_plain(call, "embedding", "gather", _last(call.outputs[0]), (out, out))]


def _part_backward(call: Call) -> list[Op]:
    """Zeros, and the gradient of the part copied into them."""
    given, out = call.inputs[0], call.outputs[0]
    return [
        _plain(call, "fill", moved=(0.0, float(out.bytes)), flops_each=0.0),
        _plain(call, "copy", "copy", moved=(float(given.bytes), float(given.bytes)), flops_each=0.0),
    ]


def _fill(call: Call) -> list[Op]:
    return [_plain(call, "fill", moved=(0.0, float(sum(each.bytes for each in call.outputs))), flops_each=0.0)]


def _nll_backward(call: Call) -> list[Op]:
    """Zeros but for one number a row."""
    return [_plain(call, "fill", moved=(0.0, float(call.outputs[0].bytes)), kernels=2)]


def _nll(call: Call) -> list[Op]:
    rows = call.inputs[0].numbers // max(1, call.inputs[0].shape[-1]) if call.inputs[0].shape else 1
    return [_plain(call, "sum_all", "reduce", moved=(12.0 * rows, 4.0), flops_each=0.0)]


def _batch_norm_backward(call: Call) -> list[Op]:
    one = 5.0 * call.inputs[0].bytes
    return [_plain(call, "batch_norm_backward", "reduce", _image(call.inputs[0]), (0.6 * one, 0.4 * one), 10.0)]


RULES: dict[str, Rule] = {
    **dict.fromkeys(names("mm addmm bmm baddbmm addbmm mv addmv dot linear matmul"), _matmul),
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    **dict.fromkeys(
        names("""_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
        _scaled_dot_product_cudnn_attention _scaled_dot_product_flash_attention_for_cpu"""),
        _attention,
    ),
    **dict.fromkeys(
        names("""_scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward
        _scaled_dot_product_cudnn_attention_backward
        _scaled_dot_product_flash_attention_for_cpu_backward"""),
        _attention_backward,
    ),
    **dict.fromkeys(names("native_layer_norm native_layer_norm_backward _fused_rms_norm"), _layer_norm),
    **dict.fromkeys(
        names("""native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training
        _batch_norm_with_update _batch_norm_no_update cudnn_batch_norm"""),
        _batch_norm,
    ),
    **dict.fromkeys(
        names("native_batch_norm_backward batch_norm_backward cudnn_batch_norm_backward"), _batch_norm_backward
    ),
    "native_group_norm": _times("group_norm", 3, _channel),
    "native_group_norm_backward": _times("group_norm_backward", 5, _channel),
    **dict.fromkeys(names("_softmax _safe_softmax"), _times("softmax", 2, _last)),
    "_softmax_backward_data": _times("softmax_backward", 3, _last),
    "_log_softmax": _times("log_softmax", 2, _last),
    "_log_softmax_backward_data": _times("log_softmax_backward", 3, _last),
    **dict.fromkeys(names("nll_loss_forward nll_loss2d_forward"), _nll),
    **dict.fromkeys(names("nll_loss_backward nll_loss2d_backward"), _nll_backward),
    **dict.fromkeys(
        names("""sum mean amax amin max min argmax argmin prod any all norm linalg_vector_norm var std var_mean
        std_mean logsumexp cumsum"""),
        _sum,
    ),
    **dict.fromkeys(names("clone _to_copy copy contiguous"), _copy),
    "native_dropout": family("dropout"),
    "native_dropout_backward": _pointwise,
    "gelu": family("gelu", flops_each=20.0),
    "gelu_backward": family("gelu_backward", flops_each=30.0),
    **dict.fromkeys(names("max_pool2d_with_indices max_pool2d_with_indices_backward"), _max_pool),
    **dict.fromkeys(names("avg_pool2d _adaptive_avg_pool2d avg_pool3d _adaptive_avg_pool3d"), family("avg_pool")),
    **dict.fromkeys(names("avg_pool2d_backward _adaptive_avg_pool2d_backward"), family("avg_pool_backward")),
    **dict.fromkeys(
        names("upsample_nearest2d upsample_bilinear2d upsample_bicubic2d upsample_nearest1d"), family("upsample")
    ),
    **dict.fromkeys(names("upsample_nearest2d_backward upsample_bilinear2d_backward"), family("upsample_backward")),
    **dict.fromkeys(names("embedding index_select gather index _unsafe_index"), _gather),
    "embedding_dense_backward": _embedding_backward,
    **dict.fromkeys(names("select_backward slice_backward diagonal_backward"), _part_backward),
    **dict.fromkeys(names("cat stack"), family("cat", "copy", 0.0)),
    **dict.fromkeys(
        names("""zeros ones full fill zero zeros_like ones_like full_like new_zeros new_ones new_full arange
        scalar_tensor constant_pad_nd"""),
        _fill,
    ),
    **dict.fromkeys(
        names("""randn rand randint bernoulli normal uniform rand_like randn_like tril triu roll flip repeat
        masked_fill scatter scatter_add index_add index_put split_with_sizes_copy unfold_backward glu
        glu_backward mse_loss mse_loss_backward
        threshold_backward hardswish hardswish_backward hardtanh_backward hardsigmoid_backward silu_backward
        elu_backward leaky_relu_backward softplus_backward log_sigmoid_forward log_sigmoid_backward mish_backward
        smooth_l1_loss smooth_l1_loss_backward huber_loss huber_loss_backward binary_cross_entropy
        binary_cross_entropy_backward sigmoid_backward tanh_backward"""),
        _pointwise,
    ),
}
"""By name, without the underscore of those that work in place."""
