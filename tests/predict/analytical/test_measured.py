"""Tests for op times interpolated from measurements."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.predict.analytical import timing
from gpusquad.predict.analytical.graph import view
from gpusquad.predict.analytical.measured import MeasuredCard, _op, base_us, op_us
from gpusquad.predict.analytical.op import Dtype, Op

SIZES = tuple(2**power for power in range(6, 13))


def half_of_the_ceiling(m, n, k):
    return 2.0 + 2 * max(2 * m * n * k / 100e12, 2 * (m * n + m * k + n * k) / 1e12) * 1e6


CARD = MeasuredCard(
    name="test",
    memory_bytes=10**10,
    sms=100,
    bandwidth=1e12,
    l2_bytes=10**7,
    matmul_flops={"bf16": 100e12, "fp32": 10e12},
    vector_flops=1e13,
    launch_us=2.0,
    measured=True,
    samples={
        "matmul.nt.bf16": tuple(
            (1, m, n, k, half_of_the_ceiling(m, n, k)) for m in SIZES for n in SIZES for k in SIZES
        ),
        "pointwise.fp32": tuple((2.0**power, 1, 2.0 + 2.0**power / 1e6) for power in range(10, 30)),
    },
    host={"pointwise": 10.0},
    processor="a processor",
)


def product(m, n, k, name="matmul.nt", dtype: Dtype = "bf16"):
    return Op("matmul", 2.0 * m * n * k, 2.0 * (m * k + n * k), 2.0 * m * n, dtype, (1, m, n, k), name)


@given(st.floats(64, 4096), st.floats(64, 4096), st.floats(64, 4096))
def test_op_time_between_measurements_is_interpolated(m, n, k):
    m, n, k = round(m), round(n), round(k)
    assert op_us(product(m, n, k), CARD) == pytest.approx(half_of_the_ceiling(m, n, k), rel=0.1)


def test_op_time_beyond_the_measurements_grows_with_the_work():
    small, large = (op_us(product(size, 4096, 4096), CARD) for size in (1 << 15, 1 << 17))
    assert large / small == pytest.approx(4, rel=0.05)


def test_unmeasured_streaming_op_is_timed_as_pointwise():
    ops = [Op("vector", 0.0, 5e6, 5e6, name=name, shape=(1,)) for name in ("pointwise", "never_measured")]
    assert op_us(ops[0], CARD) == op_us(ops[1], CARD) == pytest.approx(12, rel=0.1)


def test_unmeasured_dtype_is_timed_as_a_similar_one():
    fp16 = op_us(product(512, 512, 512, dtype="fp16"), CARD)
    assert fp16 > base_us(product(512, 512, 512, dtype="fp16"), CARD)


def test_unmeasured_product_is_timed_by_the_roofline():
    op = product(512, 512, 512, name="bmm.nt")
    assert op_us(op, CARD) == base_us(op, CARD)


def test_views_take_no_time_and_count_multiplies_the_time():
    assert op_us(view(), CARD) == 0
    op = product(512, 512, 512)
    repeated = Op("matmul", op.flops, op.read_bytes, op.write_bytes, "bf16", op.shape, op.name, count=3)
    assert op_us(repeated, CARD) == pytest.approx(3 * op_us(op, CARD))


def test_timing_uses_the_measurements_of_a_measured_card():
    assert timing.op_us(product(256, 256, 256), CARD) == op_us(product(256, 256, 256), CARD)


def test_measured_card_round_trips_through_json():
    restored = MeasuredCard.from_dict(json.loads(json.dumps(CARD.to_dict())))
    assert restored == CARD
    assert op_us(product(300, 300, 300), restored) == op_us(product(300, 300, 300), CARD)


@pytest.mark.parametrize(
    ("name", "row", "flops"),
    [
        ("matmul.nt.bf16", (1, 2, 3, 5, 9.0), 60),
        ("conv.wgrad.tf32", (2, 16, 8, 8, 32, 3, 3, 1, 1, 9.0), 2 * 2 * 32 * 64 * 16 * 9),
        ("attention.forward.bf16", (8, 16, 16, 32, 9.0), 4 * 8 * 256 * 32),
        ("attention.forward.causal.bf16", (8, 16, 16, 32, 9.0), 2 * 8 * 256 * 32),
        ("attention.backward.bf16", (8, 16, 16, 32, 9.0), 10 * 8 * 256 * 32),
        ("lstm.backward.bf16", (4, 10, 8, 16, 9.0), 2 * 2 * 10 * 4 * 64 * 24),
    ],
)
def test_rows_are_read_as_the_measured_ops(name, row, flops):
    assert _op(name, row).flops == flops


def test_optimiser_row_counts_all_its_passes():
    assert _op("adamw.fp32", (1000.0, 7, 9.0)).moved_bytes == 20 * 1000


def test_recurrent_layer_time_is_proportional_to_its_length():
    short, long = (_op("lstm.forward.bf16", (4, length, 8, 16, 9.0)) for length in (10, 1000))
    assert base_us(long, CARD) == pytest.approx(100 * base_us(short, CARD), rel=0.01)
    assert base_us(short, CARD) > 2 * 10 * CARD.launch_us


def test_issue_times_are_separate_from_card_times():
    with_issue = replace(CARD, samples={**CARD.samples, "issue.matmul.nt.fp32": ((1, 8, 8, 8, 20.0),)})
    assert set(with_issue.families) == set(CARD.families)
    assert with_issue.issue(product(64, 64, 64, dtype="fp32")) == pytest.approx(20)
    assert CARD.issue(product(64, 64, 64)) is None
