"""Arithmetic and memory traffic of PyTorch's ATen ops, from their names and shapes. Does not import PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from gpusquad.predict.analytical import aten_products as products
from gpusquad.predict.analytical.call import Call, Tensor, plain_op
from gpusquad.predict.analytical.graph import names, view
from gpusquad.predict.analytical.op import Kind, Op

Rule = Callable[[Call], list[Op]]
FREE = frozenset(
    names(
        """empty empty_like empty_strided new_empty new_empty_strided detach alias lift_fresh _unsafe_view resize_
        set_ is_same_size sym_size sym_stride sym_numel _reshape_alias t transpose_ unsafe_split
        _has_compatible_shallow_copy_type _local_scalar_dense"""
    )
)
"""Ops without work for the card and without noticeable work for the host."""


def ops_of(call: Call) -> tuple[list[Op], bool]:
    """The work of a call, and whether its cost is known. False: it is assumed to be pointwise."""
    name = call.name.rstrip("_") or call.name
    if call.name in FREE or name in FREE:
        return [], True
    if call.is_view:
        return [view(call.phase)], True
    rule = RULES.get(call.name) or RULES.get(name)
    if rule is not None:
        return rule(call), True
    return [plain_op(call, "inplace" if call.name.endswith("_") else "pointwise")], call.is_pointwise


def _pointwise(call: Call) -> list[Op]:
    return [plain_op(call, "pointwise")]


def _streaming(name: str, kind: Kind = "vector", flops_each: float = 4.0) -> Rule:
    """Rule for an op that reads its inputs once and writes its outputs once. Calibrations measure it as ``name``."""
    return lambda call: [plain_op(call, name, kind, flops_each=flops_each)]


# --- normalisation, reductions, copies, lookups ----------------------------------------------------------------------


def _in_passes(name: str, passes: int, inner: Callable[[Tensor], int]) -> Rule:
    """Rule for a reduction that reads or writes a tensor of the size of its first input ``passes`` times in total."""

    def rule(call: Call) -> list[Op]:
        main = call.inputs[0]
        return [plain_op(call, name, "reduce", inner(main), _traffic(main, passes), 8.0)]

    return rule


def _traffic(tensor: Tensor, passes: int) -> tuple[float, float]:
    """Bytes read and written in ``passes`` over a tensor. Most passes read."""
    moved = float(passes * tensor.bytes)
    return 0.6 * moved, 0.4 * moved


def _last(tensor: Tensor) -> int:
    """Size of the last dimension."""
    return tensor.shape[-1] if tensor.shape else 1


def _image(tensor: Tensor) -> tuple[int, int]:
    """Channels, and pixels per channel."""
    return _channels(tensor), max(1, prod(tensor.shape[2:]))


def _channels(tensor: Tensor) -> int:
    return tensor.shape[1] if len(tensor.shape) > 1 else 1


def _layer_norm(call: Call) -> list[Op]:
    main = call.inputs[0]
    if "backward" in call.name:
        name, passes, kernels, normalized_shape = "layer_norm_backward", 3, 2, call.args[2]
    else:
        name, passes, kernels, normalized_shape = "layer_norm", 2, 1, call.args[1]
    return [plain_op(call, name, "reduce", prod(normalized_shape), _traffic(main, passes), 8.0, kernels)]


def _batch_norm(call: Call) -> list[Op]:
    main = call.inputs[0]
    # The only boolean argument of these ops is ``training``. Ops without it train, except "no_training" ones.
    is_training = next((arg for arg in call.args if isinstance(arg, bool)), True) and "no_training" not in call.name
    name, passes = ("batch_norm", 3) if is_training else ("batch_norm_eval", 2)
    return [plain_op(call, name, "reduce", _image(main), _traffic(main, passes), 8.0)]


def _reduction(call: Call) -> list[Op]:
    """``sum_all``: to one number. ``sum_rows``: the last dimension remains. ``sum_inner``: it is reduced."""
    given, out = call.inputs[0], call.outputs[0]
    if out.numbers == 1:
        name, inner = "sum_all", 1
    elif (
        given.shape and out.numbers % given.shape[-1] == 0 and (len(out.shape) == 0 or out.shape[-1] == given.shape[-1])
    ):
        name, inner = "sum_rows", given.shape[-1]
    else:
        name, inner = "sum_inner", max(1, given.numbers // max(1, out.numbers))
    return [plain_op(call, name, "reduce", inner)]


def _copy(call: Call) -> list[Op]:
    source = call.inputs[-1] if call.name == "copy_" else call.inputs[0]  # the first input of copy_ is its target
    target = call.outputs[0]
    moved = (float(source.bytes), float(target.bytes))
    if source.dtype != target.dtype or source.width != target.width:
        name = "cast"
    elif source.strides == target.strides or (source.is_contiguous and target.is_contiguous):
        name = "copy"
    elif source.strides and source.strides[-1] == (target.strides[-1] if target.strides else 1):
        name = "permute"
    else:
        name = "transpose"
    return [plain_op(call, name, "copy", _last(source), moved, 0.0)]


def _max_pool(call: Call) -> list[Op]:
    back = "backward" in call.name
    kernel, *rest = call.args[2 if back else 1 :]
    stride = (rest[0] if rest else None) or kernel
    image = call.outputs[0] if back else call.inputs[0]
    out = call.inputs[0] if back else call.outputs[0]
    moved = float(image.bytes + out.bytes + 8 * out.numbers)  # with an index of eight bytes per output
    inner = max(1, prod(kernel) // max(stride))
    return [plain_op(call, "max_pool_backward" if back else "max_pool", "vector", inner, (moved / 2, moved / 2))]


def _embedding_backward(call: Call) -> list[Op]:
    given, out = call.inputs[0], call.outputs[0]
    return [
        plain_op(
            call,
            "embedding_backward",
            "gather",
            (out.shape[0], given.numbers // out.shape[-1]),
            (float(given.bytes), float(out.bytes)),
            kernels=4,
        )
    ]


def _gather(call: Call) -> list[Op]:
    """Only the selected elements are read."""
    out = float(sum(each.bytes for each in call.outputs))
    return [plain_op(call, "embedding", "gather", _last(call.outputs[0]), (out, out))]


def _part_backward(call: Call) -> list[Op]:
    """Gradient of a selected part: a tensor of zeros into which the gradient is copied."""
    given, out = call.inputs[0], call.outputs[0]
    return [
        plain_op(call, "fill", moved=(0.0, float(out.bytes)), flops_each=0.0),
        plain_op(call, "copy", "copy", moved=(float(given.bytes), float(given.bytes)), flops_each=0.0),
    ]


def _fill(call: Call) -> list[Op]:
    return [plain_op(call, "fill", moved=(0.0, float(sum(each.bytes for each in call.outputs))), flops_each=0.0)]


def _nll_backward(call: Call) -> list[Op]:
    """The gradient is zero except for one number per row."""
    return [plain_op(call, "fill", moved=(0.0, float(call.outputs[0].bytes)), kernels=2)]


def _nll(call: Call) -> list[Op]:
    rows = call.inputs[0].numbers // max(1, call.inputs[0].shape[-1]) if call.inputs[0].shape else 1
    row_bytes = 12.0  # a class index of eight bytes and the number it selects
    return [plain_op(call, "sum_all", "reduce", moved=(row_bytes * rows, 4.0), flops_each=0.0)]


def _batch_norm_backward(call: Call) -> list[Op]:
    main = call.inputs[0]
    return [plain_op(call, "batch_norm_backward", "reduce", _image(main), _traffic(main, 5), 10.0)]


RULES: dict[str, Rule] = {
    **dict.fromkeys(names("mm addmm bmm baddbmm addbmm mv addmv dot linear matmul"), products.matmul),
    "convolution": products.convolution,
    "convolution_backward": products.convolution_backward,
    **dict.fromkeys(
        names("""_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention
        _scaled_dot_product_cudnn_attention _scaled_dot_product_flash_attention_for_cpu"""),
        products.attention,
    ),
    **dict.fromkeys(
        names("""_scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward
        _scaled_dot_product_cudnn_attention_backward
        _scaled_dot_product_flash_attention_for_cpu_backward"""),
        products.attention_backward,
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
    "native_group_norm": _in_passes("group_norm", 3, _channels),
    "native_group_norm_backward": _in_passes("group_norm_backward", 5, _channels),
    **dict.fromkeys(names("_softmax _safe_softmax"), _in_passes("softmax", 2, _last)),
    "_softmax_backward_data": _in_passes("softmax_backward", 3, _last),
    "_log_softmax": _in_passes("log_softmax", 2, _last),
    "_log_softmax_backward_data": _in_passes("log_softmax_backward", 3, _last),
    **dict.fromkeys(names("nll_loss_forward nll_loss2d_forward"), _nll),
    **dict.fromkeys(names("nll_loss_backward nll_loss2d_backward"), _nll_backward),
    **dict.fromkeys(
        names("""sum mean amax amin max min argmax argmin prod any all norm linalg_vector_norm var std var_mean
        std_mean logsumexp cumsum"""),
        _reduction,
    ),
    **dict.fromkeys(names("clone _to_copy copy contiguous"), _copy),
    "native_dropout": _streaming("dropout"),
    "native_dropout_backward": _pointwise,
    "gelu": _streaming("gelu", flops_each=20.0),
    "gelu_backward": _streaming("gelu_backward", flops_each=30.0),
    **dict.fromkeys(names("max_pool2d_with_indices max_pool2d_with_indices_backward"), _max_pool),
    **dict.fromkeys(names("avg_pool2d _adaptive_avg_pool2d avg_pool3d _adaptive_avg_pool3d"), _streaming("avg_pool")),
    **dict.fromkeys(names("avg_pool2d_backward _adaptive_avg_pool2d_backward"), _streaming("avg_pool_backward")),
    **dict.fromkeys(
        names("upsample_nearest2d upsample_bilinear2d upsample_bicubic2d upsample_nearest1d"), _streaming("upsample")
    ),
    **dict.fromkeys(names("upsample_nearest2d_backward upsample_bilinear2d_backward"), _streaming("upsample_backward")),
    **dict.fromkeys(names("embedding index_select gather index _unsafe_index"), _gather),
    "embedding_dense_backward": _embedding_backward,
    **dict.fromkeys(names("select_backward slice_backward diagonal_backward"), _part_backward),
    **dict.fromkeys(names("cat stack"), _streaming("cat", "copy", 0.0)),
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
"""Rules by the name of the op, without the trailing underscore of in-place ops."""
