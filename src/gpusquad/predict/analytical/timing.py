"""Op times on a card: the greater of arithmetic and memory traffic, plus losses in tiles and waves.

A product is cut into tiles. A streaming multiprocessor processes one tile at a time, so the last wave of tiles leaves
some of them idle, and tiles at the edges of the matrices are only partly filled. The library picks the fastest tile
(and splits the inner dimension if there are too few tiles), and so does this module. Everything else is bytes moved.

The constants are the same for all cards; the fraction of its data sheet that a card reaches is stored with the shipped
cards. Second-level caches are left out on purpose: a term for them did not reduce the error on cards that were not
fitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from gpusquad.predict.analytical.card import CardRoofline
from gpusquad.predict.analytical.op import Op

_TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128))
_SPLITS = (1, 2, 4, 8, 16)
_MIN_SPLIT_K = 256
"""Largest useful number of splits of the inner dimension."""
_SPLIT_GAIN = 1.05
"""Minimum gain of a split, to pay for the additional sums."""
_PRODUCTS = ("matmul", "conv", "attention")
_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants that no data sheet states. Fitted by ``bench.neusight`` (which also reports the held-out errors),
    except ``overlap``.
    """

    ramp_k: float = 32.0
    """Cost of filling the pipeline and storing a tile, in steps of the inner dimension."""
    wait_us: float = 30.0
    """Time from a result that the host waits for to the next kernel."""
    overlap: float = 3.0
    """Order of the norm that combines arithmetic and traffic of one kernel. 1: in sequence; infinite: fully overlapped.
    Any value from 2 to 4 works.
    """


CONSTANTS = Constants()
_ATTENTION_RATIO = 0.6
"""Fraction of a large product's rate, not fitted. FlashAttention-2 (Dao, 2023) reports 50 to 73 % of an A100's peak,
the authors of FlashAttention-3 (2024) 35 % for it on an H100; large products reach about 80 %.
"""
_HIDDEN_RATIO = 0.7
"""The fraction of the backward pass that can hide the exchange of gradients."""
_BUCKET_BYTES = 25 << 20
"""The last bucket of gradients cannot be hidden (25 MiB in PyTorch)."""


def op_us(op: Op, card: CardRoofline, constants: Constants = CONSTANTS) -> float:
    """Device time of one op, for all of its ``count``."""
    if card.measured:
        from gpusquad.predict.analytical import measured

        return measured.op_us(op, card)
    if op.kind == "allreduce":
        return op.count * _allreduce_us(op, card, gpus=1 << 20)
    work_us = _product_us(op, card, constants) if op.kind in _PRODUCTS else _stream_us(op, card)
    return op.count * (work_us + op.kernels * card.launch_us + (constants.wait_us if op.waits else 0.0))


def step_us(ops: Sequence[Op], card: CardRoofline, gpus: int = 1, graph: bool = False,
            constants: Constants = CONSTANTS) -> float:  # fmt: skip
    """Time of a step of these ops, each of them on every card.

    All-reduces of the phase "communication" (gradients) are hidden behind the backward pass as far as possible. Others
    (of tensor-parallel layers) run between the ops. With one card they cost nothing.
    """
    device_us = backward_us = travel_us = last_us = 0.0
    launches = 0
    for op in ops:
        if op.kind == "allreduce" and gpus < 2:
            continue
        launches += op.count * op.kernels
        if op.kind == "allreduce":
            spent_us = op.count * _allreduce_us(op, card, gpus)
            if op.phase == "communication":
                travel_us += spent_us
                last_us = max(last_us, spent_us * min(1.0, _BUCKET_BYTES / max(op.write_bytes, 1.0)))
                continue
        else:
            spent_us = op_us(op, card, constants)
        device_us += spent_us
        if op.phase == "backward":
            backward_us += spent_us
    exposed_us = max(travel_us - _HIDDEN_RATIO * backward_us, last_us)
    host_us = 0.0 if graph else launches * card.host_op_us
    return max(device_us, host_us) + exposed_us


def _product_us(op: Op, card: CardRoofline, constants: Constants) -> float:
    ceiling = card.matmul_flops.get(op.dtype) or card.vector_flops
    memory_us = 1e6 * op.moved_bytes / card.bandwidth
    if op.kind == "attention":
        return _together_us(1e6 * op.flops / (ceiling * _ATTENTION_RATIO), memory_us, constants)
    ratio, extra_values = _best_tiling(_as_product(op), card.sms, constants.ramp_k)
    extra_us = 1e6 * extra_values * _BYTES[op.dtype] / card.bandwidth
    return _together_us(1e6 * op.flops / (ceiling * ratio), memory_us + extra_us, constants)


def _stream_us(op: Op, card: CardRoofline) -> float:
    memory_us = 1e6 * op.moved_bytes / card.bandwidth
    return max(memory_us, 1e6 * op.flops / card.vector_flops)


def _together_us(compute_us: float, memory_us: float, constants: Constants) -> float:
    order = constants.overlap
    return (compute_us**order + memory_us**order) ** (1 / order)


def _as_product(op: Op) -> tuple[int, ...]:
    """Batch, m, n and k. A convolution counts as the product it is lowered to. Without a shape there are no losses."""
    if op.kind == "matmul" or not op.shape:
        return op.shape
    images, channels, height, width, filters, kernel_h, kernel_w, stride, groups = op.shape
    rows = images * max(1, height // stride) * max(1, width // stride)
    return groups, rows, max(1, filters // groups), max(1, channels // groups) * kernel_h * kernel_w


@lru_cache(maxsize=65536)
def _best_tiling(shape: tuple[int, ...], sms: int, ramp_k: float) -> tuple[float, float]:
    """The fraction of the ceiling that the fastest tiling reaches, and the values it moves to sum a split inner
    dimension.
    """
    if not shape:
        return 1.0, 0.0
    batch, m, n, k = shape
    useful = batch * m * n * k
    best = (0.0, 0.0)
    for split in _SPLITS:
        if split > 1 and k < split * _MIN_SPLIT_K:
            break
        for high, wide in _TILES:
            tiles = batch * ceil(m / high) * ceil(n / wide) * split
            issued = ceil(tiles / sms) * sms * high * wide * (k / split + ramp_k)
            ratio = useful / issued
            if ratio > best[0] * (_SPLIT_GAIN if split > 1 else 1.0):
                best = (ratio, 2.0 * split * batch * m * n if split > 1 else 0.0)
    return best


def _allreduce_us(op: Op, card: CardRoofline, gpus: int) -> float:
    """A ring sends the data nearly twice over each link."""
    return 1e6 * 2 * (gpus - 1) / gpus * op.write_bytes / card.link_bandwidth + 2 * card.launch_us
