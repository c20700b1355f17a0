"""Matrix products: the three layouts of a linear layer's forward and backward, and batches of small ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpusquad.predict.analytical.probes.clock import DeviceTimer, arithmetic
from gpusquad.predict.analytical.probes.shapes import spread

DTYPES = ("bf16", "fp16", "tf32", "fp32")
LAYOUTS = ("nt", "nn", "tn")
"""Forward, gradient of the input, gradient of the weights."""
MAX_WORK = 1 << 37
MAX_NUMBERS = 1 << 29
REFERENCES = {"matmul": (1, 8, 64, 64), "bmm": (8, 16, 16, 32)}
"""The products whose host cost ``probes.host`` measures. The cost of others follows from the comparison with them."""
REFERENCE_EVERY = 12


def measure(torch: Any, clock: DeviceTimer, dtype: str, shapes: int) -> dict[str, list]:
    """Microseconds of the card, and (``issue.``) of the host."""
    found: dict[str, list] = {}
    few = dtype == "fp16"  # as bf16 almost everywhere
    with arithmetic(torch, dtype) as kind:
        pool = torch.randn(MAX_NUMBERS, device="cuda", dtype=kind)
        floats = torch.randn(3 * 64 * 64, device="cuda")
        for layout in LAYOUTS:
            rows = (
                *((f"matmul.{layout}", (1, *shape)) for shape in _shapes(shapes // 4 if few else shapes, odd=False)),
                *((f"matmul.{layout}.odd", (1, *shape)) for shape in _shapes(shapes // 3, odd=True)),
                *((f"bmm.{layout}", shape) for shape in _batches(shapes // 3)),
            )
            for index, (name, shape) in enumerate(rows):
                us, issue_us = _time(clock, pool, layout, *shape)
                found.setdefault(f"{name}.{dtype}", []).append((*shape, us))
                found.setdefault(f"issue.{name}.{dtype}", []).append((*shape, issue_us))
                if index % REFERENCE_EVERY == 0:
                    with arithmetic(torch, "fp32"):
                        for root, reference in REFERENCES.items():
                            _, issue_us = _time(clock, floats, layout, *reference)
                            found.setdefault(f"issue.{root}.{layout}.reference", []).append((*reference, issue_us))
    return found


def _time(clock: DeviceTimer, pool: Any, layout: str, batch: int, m: int, n: int, k: int) -> tuple[float, float]:
    def matrix(offset: int, rows: int, columns: int, turned: bool) -> Any:
        numbers = pool[offset : offset + batch * rows * columns]
        shape = (batch, columns, rows) if turned else (batch, rows, columns)
        whole = numbers.view(shape).transpose(1, 2) if turned else numbers.view(shape)
        return whole if batch > 1 else whole[0]

    left = matrix(0, m, k, layout == "tn")
    right = matrix(-(-batch * m * k // 64) * 64, k, n, layout == "nt")
    multiply = left.matmul if batch == 1 else left.bmm
    return clock.us(lambda: multiply(right), readings=2), clock.issue_us


def _shapes(count: int, odd: bool) -> Iterator[tuple[int, int, int]]:
    index = 0
    while count > 0:
        m, n, k = (2**x for x in spread(index, ((3, 17), (3.3, 14.7), (3.3, 14.7))))
        m, n, k = _aligned(m), _aligned(n, odd), _aligned(k, odd and index % 4 == 0)
        if index % 2:  # a weight's gradient: the long side is summed over
            m, k = k, m
        index += 1
        if m * n * k <= MAX_WORK and m * n + m * k + n * k <= MAX_NUMBERS // 2:
            count -= 1
            yield m, n, k


def _batches(count: int) -> Iterator[tuple[int, int, int, int]]:
    index = 0
    while count > 0:
        batch, m, n, k = (2**x for x in spread(index, ((2, 11), (4, 11), (4, 11), (4, 11))))
        index += 1
        batch, m, n, k = round(batch), _aligned(m), _aligned(n), _aligned(k)
        if batch * m * n * k <= MAX_WORK and batch * (m * n + m * k + n * k) <= MAX_NUMBERS // 2:
            count -= 1
            yield batch, m, n, k


def _aligned(size: float, odd: bool = False) -> int:
    """Tensor cores need rows that are multiples of 16 bytes."""
    step = 8 if size < 512 else 64
    rounded = max(8, round(size / step) * step)
    return rounded + 1 if odd else rounded
