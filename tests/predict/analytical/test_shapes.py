"""Tests for the shapes that a calibration measures."""

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.predict.analytical.probes import convs, matmuls
from gpusquad.predict.analytical.probes.shapes import halton, pick, spread


@given(st.integers(0, 10**6), st.sampled_from((2, 3, 5, 7)))
def test_halton_sequence_stays_between_zero_and_one(index, base):
    assert 0 <= halton(index, base) < 1


def test_halton_sequence_is_spread_evenly():
    for base in (2, 3, 5):
        tenths = [int(10 * halton(index, base)) for index in range(1, 1001)]
        assert all(90 <= tenths.count(tenth) <= 110 for tenth in range(10))


@given(st.integers(0, 1000))
def test_points_lie_in_their_box_and_picks_in_their_list(index):
    for value, (low, high) in zip(spread(index, ((1, 2), (-3, 5))), ((1, 2), (-3, 5)), strict=True):
        assert low <= value < high
    assert pick(index, 2, "abc") in "abc"


def test_matmul_shapes_are_aligned_as_requested_and_fit():
    for m, n, k in matmuls._shapes(60, odd=False):
        assert m % 8 == n % 8 == k % 8 == 0
        assert m * n * k <= matmuls.MAX_WORK
    assert all(n % 8 or m % 8 or k % 8 for m, n, k in matmuls._shapes(60, odd=True))
    for batch, m, n, k in matmuls._batches(30):
        assert batch * (m * n + m * k + n * k) <= matmuls.MAX_NUMBERS // 2


def test_convolution_shapes_have_valid_groups_and_fit():
    shapes = [*convs._dense(60), *convs._first(20), *convs._depthwise(20)]
    assert len(shapes) > 90
    for shape in shapes:
        _, cin, height, _, cout, kernel, _, _, groups = shape
        assert cin % groups == cout % groups == 0
        assert kernel <= height + 2 * (kernel // 2)
        assert convs._fits(shape)
