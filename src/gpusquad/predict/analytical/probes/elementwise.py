"""Ops that move bytes: element by element, along rows, by index, and between layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gpusquad.predict.analytical.probes.clock import DeviceTimer

SIZES = tuple(1 << power for power in (12, 15, 17, 19, 21, 22, 23, 24, 25, 26, 28))
Probe = tuple[str, Callable[[], Any], float, int] | tuple[str, Callable[[], Any], float, int, int]
"""Family, function, bytes it must move, and the length of its inner dimension (1: none). For some also the numbers in a
row, or the number of selected rows.
"""


def measure(torch: Any, clock: DeviceTimer) -> dict[str, list]:
    found: dict[str, list] = {}
    for dtype, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        for size in SIZES:
            for make in (_pointwise, _layouts, _norms, _softmaxes, _pools, _indexed, _reductions):
                for name, call, *sizes in make(torch, size, kind):
                    us = clock.us(call, readings=2)
                    found.setdefault(f"{name}.{dtype}", []).append((*sizes, us))
            torch.cuda.empty_cache()
    return found


def _backward(torch: Any, out: Any, inputs: tuple) -> Callable[[], Any]:
    gradient = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, inputs, gradient, retain_graph=True)


def _pointwise(torch: Any, size: int, kind: Any) -> Iterator[Probe]:
    x, y = torch.randn(size, device="cuda", dtype=kind), torch.randn(size, device="cuda", dtype=kind)
    width = x.element_size()
    other = torch.float32 if kind is torch.bfloat16 else torch.bfloat16
    other_width = 6 - width
    aten, f = torch.ops.aten, torch.nn.functional
    yield "pointwise", lambda: torch.relu(x), 2 * size * width, 1
    yield "pointwise", lambda: x + y, 3 * size * width, 1
    yield "inplace", lambda: torch.relu_(x), 2 * size * width, 1
    yield "gelu", lambda: f.gelu(x), 2 * size * width, 1
    yield "gelu_backward", lambda: aten.gelu_backward(y, x), 3 * size * width, 1
    yield "cast", lambda: x.to(other), size * (width + other_width), 1
    yield "fill", lambda: x.zero_(), size * width, 1
    yield "dropout", lambda: aten.native_dropout(y, 0.1, True), size * (2 * width + 1), 1
    if size >= 1 << 17:
        rows, row = y.view(-1, 1024), torch.randn(1024, device="cuda", dtype=kind)
        yield "broadcast", lambda: rows + row, 2 * size * width, 1024
        image, channel = y.view(-1, 64, 256), torch.randn(64, 1, device="cuda", dtype=kind)
        yield "bias", lambda: image.add_(channel), 2 * size * width, 64


def _layouts(torch: Any, size: int, kind: Any) -> Iterator[Probe]:
    x = torch.randn(size, device="cuda", dtype=kind)
    moved = 2 * size * x.element_size()
    yield "copy", lambda: x.clone(), moved, 1
    heads = x.view(-1, 8, 8, 64).transpose(1, 2)
    yield "permute", lambda: heads.contiguous(), moved, 64
    if size >= 1 << 17:
        turned = x.view(-1, 256, 128).transpose(1, 2)
        yield "transpose", lambda: turned.contiguous(), moved, 128
        halves = x.view(2, -1, 64, 64)
        yield "cat", lambda: torch.cat((halves[0], halves[1]), 1), moved, 2


def _norms(torch: Any, size: int, kind: Any) -> Iterator[Probe]:
    f = torch.nn.functional
    for inner in (256, 768, 1024, 4096):
        if size < 16 * inner:
            continue
        x = torch.randn(size // inner, inner, device="cuda", dtype=kind, requires_grad=True)
        one = x.numel() * x.element_size()
        weight, bias = (torch.randn(inner, device="cuda", dtype=kind, requires_grad=True) for _ in range(2))
        yield "layer_norm", lambda x=x, w=weight, b=bias: f.layer_norm(x, w.shape, w, b), 2 * one, inner
        out = f.layer_norm(x, weight.shape, weight, bias)
        yield "layer_norm_backward", _backward(torch, out, (x, weight, bias)), 3 * one, inner
    for channels, side in (
        (32, 112),
        (64, 56),
        (256, 56),
        (128, 28),
        (512, 28),
        (64, 14),
        (256, 14),
        (1024, 14),
        (128, 7),
        (512, 7),
        (2048, 7),
        (16, 32),
        (64, 128),
    ):
        batch = size // (channels * side * side)
        if batch < 1:
            continue
        x = torch.randn(batch, channels, side, side, device="cuda", dtype=kind, requires_grad=True)
        one = x.numel() * x.element_size()
        weight, bias = (torch.ones(channels, device="cuda", requires_grad=True) for _ in range(2))
        mean, var = torch.zeros(channels, device="cuda"), torch.ones(channels, device="cuda")
        yield (
            "batch_norm_eval",
            lambda x=x, m=mean, v=var, w=weight, b=bias: f.batch_norm(x.detach(), m, v, w.detach(), b.detach(), False),
            2 * one,
            channels,
            side**2,
        )
        if batch * side * side < 2:
            continue
        yield (
            "batch_norm",
            lambda x=x, m=mean, v=var, w=weight, b=bias: f.batch_norm(x, m, v, w, b, True),
            3 * one,
            channels,
            side**2,
        )
        out = f.batch_norm(x, mean, var, weight, bias, True)
        yield "batch_norm_backward", _backward(torch, out, (x, weight, bias)), 5 * one, channels, side**2
    if size >= 1 << 17:
        x = torch.randn(size // (128 * 256), 128, 16, 16, device="cuda", dtype=kind, requires_grad=True)
        out = f.group_norm(x, 32)
        yield "group_norm", lambda: f.group_norm(x, 32), 3 * size * x.element_size(), 128
        yield "group_norm_backward", _backward(torch, out, (x,)), 5 * size * x.element_size(), 128


def _softmaxes(torch: Any, size: int, kind: Any) -> Iterator[Probe]:
    for inner in (128, 512, 1000, 32768):
        if size < 4 * inner:
            continue
        x = torch.randn(size // inner, inner, device="cuda", dtype=kind, requires_grad=True)
        one = x.numel() * x.element_size()
        for name, call in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
            yield name, lambda x=x, call=call: call(x, 1), 2 * one, inner
            yield f"{name}_backward", _backward(torch, call(x, 1), (x,)), 3 * one, inner


def _pools(torch: Any, size: int, kind: Any) -> Iterator[Probe]:
    f = torch.nn.functional
    if size < 1 << 17:
        return
    x = torch.randn(size // (64 * 32 * 32), 64, 32, 32, device="cuda", dtype=kind, requires_grad=True)
    one = x.numel() * x.element_size()
    for kernel, stride in ((2, 2), (3, 2), (3, 1)):
        out = f.max_pool2d(x, kernel, stride, kernel // 2)
        index_bytes = 8 * out.numel()
        moved = one + out.numel() * out.element_size() + index_bytes
        yield "max_pool", lambda k=kernel, s=stride: f.max_pool2d(x, k, s, k // 2), moved, kernel * kernel // stride
        yield "max_pool_backward", _backward(torch, out, (x,)), moved, kernel * kernel // stride
    out = f.avg_pool2d(x, 2)
    yield "avg_pool", lambda: f.avg_pool2d(x, 2), 1.25 * one, 4
    yield "avg_pool_backward", _backward(torch, out, (x,)), 1.25 * one, 4
    out = f.interpolate(x, scale_factor=2.0, mode="nearest")
    yield "upsample", lambda: f.interpolate(x, scale_factor=2.0, mode="nearest"), 5 * one, 4
    yield "upsample_backward", _backward(torch, out, (x,)), 5 * one, 4


def _indexed(torch: Any, size: int, kind: Any) -> Iterator[Probe]:
    inner = 768
    if not 1 << 15 <= size <= 1 << 26:
        return
    rows = size // inner
    for vocabulary in (1024, 16384, 50000):
        table = torch.randn(vocabulary, inner, device="cuda", dtype=kind, requires_grad=True)
        index = torch.randint(vocabulary, (rows,), device="cuda")
        out = torch.nn.functional.embedding(index, table)
        one = out.numel() * out.element_size()
        yield "embedding", lambda i=index, t=table: torch.nn.functional.embedding(i, t), 2 * one, 768
        moved = one + table.numel() * table.element_size()
        yield "embedding_backward", _backward(torch, out, (table,)), moved, vocabulary, rows


def _reductions(torch: Any, size: int, kind: Any) -> Iterator[Probe]:
    x = torch.randn(size, device="cuda", dtype=kind)
    one = size * x.element_size()
    yield "sum_all", lambda: x.sum(), one, 1
    for inner in (64, 256, 768, 3072, 30000):
        if size >= 4 * inner:
            rows = x[: size // inner * inner].view(-1, inner)
            yield "sum_rows", lambda rows=rows: rows.sum(0), one, inner
            yield "sum_inner", lambda rows=rows: rows.sum(1), one, inner
    if size >= 1 << 17:
        image = x.view(-1, 64, 256)
        yield "sum_channels", lambda: image.sum((0, 2)), one, 64
