"""PyTorch's products in arithmetic and bytes: matrices, convolutions, fused attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gpusquad.predict.analytical.call import Call, Tensor
from gpusquad.predict.analytical.op import Dtype, Op

# --- matrix products -------------------------------------------------------------------------------------------------


def matmul(call: Call) -> list[Op]:
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
    """Numbers from the start of a row (as stored) to the start of the next."""
    if len(matrix.shape) < 2:
        return 8
    return max(matrix.strides[-2:]) or 8


# --- convolutions ----------------------------------------------------------------------------------------------------


def convolution(call: Call) -> list[Op]:
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


def convolution_backward(call: Call) -> list[Op]:
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
    """A transposed convolution is the input gradient of the convolution it mirrors."""
    if turned:
        image, out = out, image
    batch, cin, *sides = image.shape
    cout, kernel = out.shape[1], weight.shape[2:]
    if len(sides) == 1:
        sides, kernel = [1, *sides], (1, *kernel)
    depth = prod(sides[:-2])  # a volume counts as several images
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


def attention(call: Call) -> list[Op]:
    q, k, v = call.inputs[:3]
    return [_fused(call, "forward", q, k, v, 4.0, (q, k, v), call.outputs[:1])]


def attention_backward(call: Call) -> list[Op]:
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
