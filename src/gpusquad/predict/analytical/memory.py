"""Peak memory: a simulation of the framework's caching allocator along the step."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass

from gpusquad.predict.analytical.graph import Event
from gpusquad.predict.analytical.op import Op

KIB, MIB = 1 << 10, 1 << 20
GRAIN = 512
"""Every tensor takes a multiple of this."""
SMALL, SMALL_SEGMENT = MIB, 2 * MIB
"""Tensors up to the first size share segments of the second size."""
MIDDLE, MIDDLE_SEGMENT = 10 * MIB, 20 * MIB
LARGE_GRAIN = 2 * MIB


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory that a step needs on one card."""

    allocated_bytes: int
    """Tensors alive at the peak: torch.cuda.max_memory_allocated."""
    reserved_bytes: int
    """Memory that the allocator took from the driver for them: torch.cuda.max_memory_reserved."""
    card_bytes: int
    """Including the driver's context and the libraries: what NVML reports."""
    held_bytes: int
    """Memory held between steps: parameters, optimiser state, inputs."""


@dataclass(slots=True)
class _Block:
    segment: int
    start: int
    size: int
    free: bool = True


class Allocator:
    """Best fit among cached blocks, split and merged within segments, as PyTorch does by default."""

    def __init__(self) -> None:
        self.allocated = self.reserved = self.peak_allocated = self.peak_reserved = 0
        self._segments: list[list[_Block]] = []
        self._small: list[bool] = []
        self._free: dict[bool, list[tuple[int, int, int]]] = {True: [], False: []}
        """Free blocks by size, then segment and start."""
        self._used: dict[int, _Block] = {}

    def take(self, tensor: int, wanted: int) -> None:
        size = max(GRAIN, -(-wanted // GRAIN) * GRAIN)
        small = size <= SMALL
        block = self._find(size, small) or self._grow(size, small)
        self._split(block, size, small)
        block.free = False
        self._used[tensor] = block
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)

    def give(self, tensor: int) -> None:
        block = self._used.pop(tensor)
        self.allocated -= block.size
        block.free = True
        blocks = self._segments[block.segment]
        free = self._free[self._small[block.segment]]
        at = blocks.index(block)
        for neighbour in (at + 1, at - 1):
            if 0 <= neighbour < len(blocks) and blocks[neighbour].free and blocks[neighbour] is not block:
                other = blocks[neighbour]
                _remove(free, other)
                block.start = min(block.start, other.start)
                block.size += other.size
                blocks.remove(other)
        insort(free, _key(block))

    def _find(self, size: int, small: bool) -> _Block | None:
        free = self._free[small]
        at = bisect_left(free, (size, -1, -1))
        if at == len(free):
            return None
        _, segment, start = free.pop(at)
        return next(block for block in self._segments[segment] if block.start == start)

    def _grow(self, size: int, small: bool) -> _Block:
        room = SMALL_SEGMENT if small else MIDDLE_SEGMENT if size < MIDDLE else -(-size // LARGE_GRAIN) * LARGE_GRAIN
        block = _Block(len(self._segments), 0, room)
        self._segments.append([block])
        self._small.append(small)
        self.reserved += room
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return block

    def _split(self, block: _Block, size: int, small: bool) -> None:
        rest = block.size - size
        if rest < GRAIN or (not small and rest <= SMALL):
            return
        blocks = self._segments[block.segment]
        other = _Block(block.segment, block.start + size, rest)
        block.size = size
        blocks.insert(blocks.index(block) + 1, other)
        insort(self._free[small], _key(other))


def _key(block: _Block) -> tuple[int, int, int]:
    return block.size, block.segment, block.start


def _remove(free: list[tuple[int, int, int]], block: _Block) -> None:
    free.pop(bisect_left(free, _key(block)))


def workspace_bytes(op: Op) -> int:
    """The workspace of a convolution.

    In the framework's default layout the library converts image, weights and result to its own layout. Products of
    pixels (1x1) and filters of single channels need no conversion. Seen on an H200 with cuDNN 9.19: of 366 shapes most
    used exactly these bytes.
    """
    if op.kind != "conv":
        return 0
    batch, cin, height, width, _, kh, kw, stride, groups = op.shape
    is_product = kh * kw == 1 and stride == 1 and not op.name.endswith("wgrad")
    if is_product or groups > 1:
        return 0
    wide = 4 if op.dtype in ("fp32", "tf32") else 2
    padded = -cin % (16 // wide)  # channels are padded to 16 bytes
    return int(op.moved_bytes) + wide * batch * height * width * padded


def peak(events: Iterable[Event], held: Iterable[int], context_bytes: int = 0) -> Memory:
    """``held``: memory held before the step, tensor by tensor, including the libraries' buffers."""
    allocator = Allocator()
    for index, size in enumerate(held):
        allocator.take(-index - 1, size)
    before = allocator.allocated
    for tensor, size in events:
        if size:
            allocator.take(tensor, size)
        else:
            allocator.give(tensor)
    return Memory(allocator.peak_allocated, allocator.peak_reserved, allocator.peak_reserved + context_bytes, before)
