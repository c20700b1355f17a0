"""Convolutions in the framework's default layout: forward, and the gradients of input and of weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpusquad.predict.analytical.probes.clock import DeviceTimer, arithmetic
from gpusquad.predict.analytical.probes.shapes import pick

DTYPES = ("bf16", "tf32")
KERNELS = (1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 5, 7, 4)
CHANNELS = (16, 24, 32, 48, 64, 64, 96, 128, 128, 192, 256, 256, 384, 512, 512, 768, 1024, 2048)
FIRST = (3, 3, 1, 4)
SIDES = (4, 7, 8, 13, 14, 14, 16, 20, 28, 28, 32, 40, 56, 56, 64, 96, 112, 128, 224)
BATCHES = (1, 4, 8, 12, 16, 32, 48, 64, 128, 128, 256)
STRIDES = (1, 1, 1, 2)
MAX_WORK = 1.2e12
MAX_NUMBERS = 1 << 30
Shape = tuple[int, int, int, int, int, int, int, int, int]
REFERENCE: Shape = (2, 16, 8, 8, 16, 3, 3, 1, 1)
"""The layer whose host cost ``probes.host`` measures. The cost of others follows from the comparison with it."""
REFERENCE_EVERY = 12


def measure(torch: Any, clock: DeviceTimer, dtype: str, shapes: Sequence[Shape]) -> dict[str, list]:
    """Microseconds of the card, bytes of workspace during the call, and (``issue.``) microseconds of the host."""
    found: dict[str, list] = {}
    for index, shape in enumerate(shapes):
        with arithmetic(torch, dtype) as kind:
            for way, us, issue_us, work_bytes in _times(torch, clock, kind, shape):
                found.setdefault(f"conv.{way}.{dtype}", []).append((*shape, us))
                found.setdefault(f"issue.conv.{way}.{dtype}", []).append((*shape, issue_us))
                found.setdefault(f"workspace.conv.{way}.{dtype}", []).append((*shape, work_bytes))
            torch.cuda.empty_cache()
        if index % REFERENCE_EVERY == 0:
            with arithmetic(torch, "tf32") as kind:
                for way, _, issue_us, _ in _times(torch, clock, kind, REFERENCE):
                    found.setdefault(f"issue.conv.{way}.reference", []).append((*REFERENCE, issue_us))
    return found


def parts(shapes: int, count: int) -> list[list[Shape]]:
    """Shapes to measure, in ``parts`` similar parts."""
    every = [*_dense(shapes), *_first(shapes // 6), *_depthwise(shapes // 4)]
    return [every[start::count] for start in range(count)]


def _times(torch: Any, clock: DeviceTimer, kind: Any, shape: Shape) -> Iterator[tuple[str, float, float, float]]:
    batch, cin, height, width, cout, kh, kw, stride, groups = shape
    padding = (kh // 2, kw // 2) if stride < kh else (0, 0)
    image = torch.randn(batch, cin, height, width, device="cuda", dtype=kind)
    weight = torch.randn(cout, cin // groups, kh, kw, device="cuda", dtype=kind)

    def forward() -> Any:
        return torch.nn.functional.conv2d(image, weight, None, stride, padding, 1, groups)

    gradient = torch.randn_like(forward())

    def backward(*wanted: bool) -> Any:
        return torch.ops.aten.convolution_backward(
            gradient, image, weight, None, [stride] * 2, padding, [1, 1], False, [0, 0], groups, [*wanted, False]
        )

    calls = {"forward": forward, "dgrad": lambda: backward(True, False), "wgrad": lambda: backward(False, True)}
    results = {"forward": gradient, "dgrad": image, "wgrad": weight}
    for way, call in calls.items():
        us, issue_us = clock.us(call, readings=2), clock.issue_us
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        call()
        yield way, us, issue_us, float(torch.cuda.max_memory_allocated() - held - _rounded(results[way]))


def _rounded(tensor: Any) -> int:
    return -(-tensor.numel() * tensor.element_size() // 512) * 512


def _dense(count: int) -> Iterator[Shape]:
    index = 0
    while count > 0:
        kernel, cin, cout = pick(index, 0, KERNELS), pick(index, 1, CHANNELS), pick(index, 2, CHANNELS)
        side, batch, stride = pick(index, 3, SIDES), pick(index, 4, BATCHES), pick(index, 5, STRIDES)
        index += 1
        shape = (batch, cin, side, side, cout, kernel, kernel, kernel if kernel == 4 else stride, 1)
        if cin * side <= 16384 and _fits(shape):
            count -= 1
            yield shape


def _first(count: int) -> Iterator[Shape]:
    """The first layer of an image network: few channels, large kernels and strides."""
    for index in range(count):
        kernel, stride = pick(index, 0, ((3, 1), (3, 2), (7, 2), (11, 4), (16, 16), (5, 1)))
        side = pick(index, 1, (32, 64, 128, 224, 224))
        shape = (
            pick(index, 2, BATCHES),
            pick(index, 3, FIRST),
            side,
            side,
            pick(index, 4, (32, 64, 96, 768)),
            kernel,
            kernel,
            stride,
            1,
        )
        if _fits(shape):
            yield shape


def _depthwise(count: int) -> Iterator[Shape]:
    for index in range(count):
        channels, side = pick(index, 0, (16, 32, 64, 96, 128, 192, 256, 384, 512, 960)), pick(index, 1, SIDES)
        kernel, stride = pick(index, 2, (3, 3, 5)), pick(index, 3, (1, 1, 2))
        shape = (pick(index, 4, BATCHES), channels, side, side, channels, kernel, kernel, stride, channels)
        if _fits(shape):
            yield shape


def _fits(shape: Shape) -> bool:
    batch, cin, height, width, cout, kh, kw, stride, groups = shape
    outside = batch * height * width // stride**2
    return 2 * outside * cin * cout * kh * kw / groups <= MAX_WORK and (
        batch * height * width * cin + outside * cout <= MAX_NUMBERS
    )
