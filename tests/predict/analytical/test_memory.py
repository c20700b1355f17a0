"""Tests for the simulated caching allocator."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.predict.analytical.memory import GRAIN, MIB, Allocator, peak, workspace_bytes
from gpusquad.predict.analytical.op import Dtype, Op

SIZES = st.one_of(st.integers(1, 4096), st.integers(1, 40 * MIB))


@st.composite
def histories(draw):
    """Allocations and releases of tensors in any order, and the tensors alive at the end."""
    events, alive = [], []
    for count, size in enumerate(draw(st.lists(SIZES, min_size=1, max_size=40)), 1):
        events.append((count, size))
        alive.append(count)
        while alive and draw(st.booleans()):
            events.append((alive.pop(draw(st.integers(0, len(alive) - 1))), 0))
    return events, alive


@given(histories())
def test_blocks_never_overlap_and_totals_match(history):
    events, alive = history
    allocator, requested, max_requested = Allocator(), {}, 0
    for tensor, size in events:
        if size:
            allocator.take(tensor, size)
            requested[tensor] = size
        else:
            allocator.give(tensor)
            del requested[tensor]
        max_requested = max(max_requested, sum(requested.values()))
        for blocks in allocator._segments:
            assert [block.start for block in blocks] == sorted(block.start for block in blocks)
            for before, after in pairwise(blocks):
                assert before.start + before.size == after.start
        used = sum(block.size for blocks in allocator._segments for block in blocks if not block.free)
        assert used == allocator.allocated >= sum(requested.values())
        assert allocator.reserved == sum(block.size for blocks in allocator._segments for block in blocks)
    assert allocator.peak_allocated >= max_requested
    assert allocator.peak_reserved >= allocator.peak_allocated
    for tensor in alive:
        allocator.give(tensor)
    assert allocator.allocated == 0
    assert all(len(blocks) == 1 and blocks[0].free for blocks in allocator._segments)


def test_freed_block_is_reused():
    first = peak([(1, 30 * MIB), (1, 0), (2, 30 * MIB)], ())
    assert first.allocated_bytes == first.reserved_bytes == 30 * MIB


def test_small_tensors_share_a_segment_of_two_mebibytes():
    found = peak([(index, 100) for index in range(1, 9)], ())
    assert (found.allocated_bytes, found.reserved_bytes) == (8 * GRAIN, 2 * MIB)


def test_remainder_of_up_to_a_mebibyte_stays_with_a_large_block():
    found = peak([(1, 20 * MIB), (1, 0), (2, 20 * MIB - 4096)], ())
    assert found.allocated_bytes == 20 * MIB


def test_peak_includes_held_memory_and_context():
    found = peak([(1, 4 * MIB), (1, 0)], [10 * MIB], context_bytes=500)
    assert (found.held_bytes, found.allocated_bytes) == (10 * MIB, 14 * MIB)
    assert found.card_bytes == found.reserved_bytes + 500


def conv(kernel=3, stride=1, groups=1, name="conv.forward", cin=64, dtype: Dtype = "bf16"):
    return Op("conv", 1.0, 1000.0, 500.0, dtype, (2, cin, 8, 8, 64, kernel, kernel, stride, groups), name)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (conv(), 1500),
        (conv(kernel=1), 0),
        (conv(kernel=1, name="conv.wgrad"), 1500),
        (conv(kernel=1, stride=2), 1500),
        (conv(groups=64), 0),
        (conv(cin=3), 1500 + 2 * 2 * 64 * 5),
        (conv(cin=3, dtype="tf32"), 1500 + 4 * 2 * 64 * 1),
        (Op("matmul", 1.0, 1000.0, 500.0), 0),
    ],
)
def test_workspace_of_ops(op, expected):
    assert workspace_bytes(op) == expected
