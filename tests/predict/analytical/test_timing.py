"""Tests for op and step times on all cards and in simple cases."""

import sys
from dataclasses import replace
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.predict.analytical.card import CardRoofline
from gpusquad.predict.analytical.cards import SHEETS
from gpusquad.predict.analytical.op import Op
from gpusquad.predict.analytical.timing import op_us, step_us

CARD = CardRoofline(
    name="plain",
    memory_bytes=10**10,
    sms=100,
    bandwidth=1e12,
    l2_bytes=0,
    matmul_flops={"fp32": 1e13, "bf16": 1e14},
    vector_flops=1e13,
    launch_us=4.0,
    host_op_us=6.0,
    link_bandwidth=1e11,
)
TOLERANCE = 1 - 1e-9

cards = st.sampled_from(SHEETS).map(lambda sheet: sheet.card())
sizes = st.integers(1, 5000)
shapes = {
    "matmul": st.tuples(st.integers(1, 64), sizes, sizes, sizes),
    "conv": st.tuples(
        st.integers(1, 64), st.sampled_from((3, 64, 256)), st.integers(1, 256), st.integers(1, 256),
        st.sampled_from((32, 64, 512)), st.integers(1, 7), st.integers(1, 7), st.integers(1, 4), st.just(1),
    ),
    "attention": st.tuples(st.integers(1, 64), sizes, sizes, st.sampled_from((32, 64, 128))),
}  # fmt: skip


@st.composite
def ops(draw: st.DrawFn) -> Op:
    kind = draw(st.sampled_from(("matmul", "conv", "attention", "vector", "reduce", "gather", "copy", "allreduce")))
    amounts = st.floats(0, 1e14)
    return Op(
        kind=kind,
        flops=draw(amounts),
        read_bytes=draw(st.floats(0, 1e11)),
        write_bytes=draw(st.floats(0, 1e11)),
        dtype=draw(st.sampled_from(("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"))),
        shape=draw(shapes.get(kind, st.just(()))),
        count=draw(st.integers(1, 100)),
        kernels=draw(st.integers(1, 4)),
    )


@given(ops(), cards)
def test_every_op_takes_time_on_every_card(op: Op, card: CardRoofline):
    assert 0 < op_us(op, card) < float("inf")


@given(ops(), cards, st.floats(1, 100), st.sampled_from(("flops", "read_bytes", "write_bytes")))
def test_more_work_never_takes_less_time(op: Op, card: CardRoofline, factor: float, amount: str):
    more = replace(op, **{amount: getattr(op, amount) * factor})
    assert op_us(more, card) >= op_us(op, card) * TOLERANCE


@given(ops(), cards, st.integers(2, 50))
def test_op_time_is_proportional_to_its_count(op: Op, card: CardRoofline, count: int):
    assert op_us(replace(op, count=count), card) == pytest.approx(count * op_us(replace(op, count=1), card))


@given(
    ops(), cards, st.floats(1, 100), st.sampled_from(("bandwidth", "vector_flops", "matmul_flops", "link_bandwidth"))
)
def test_higher_ceiling_is_never_slower(op: Op, card: CardRoofline, factor: float, ceiling: str):
    before = getattr(card, ceiling)
    higher = before * factor if isinstance(before, float) else {name: x * factor for name, x in before.items()}
    assert op_us(op, replace(card, **{ceiling: higher})) <= op_us(op, card) / TOLERANCE


@given(st.lists(ops(), max_size=20), cards, st.booleans())
def test_step_takes_at_least_as_long_as_its_ops_and_as_on_one_gpu(chain: list[Op], card: CardRoofline, graph: bool):
    alone = step_us(chain, card, graph=graph)
    assert alone >= sum(op_us(op, card) for op in chain if op.kind != "allreduce") * TOLERANCE
    assert step_us(chain, card, gpus=8, graph=graph) >= alone * TOLERANCE


def test_copy_takes_its_bytes_over_the_bandwidth_plus_a_launch():
    assert op_us(Op("copy", 0, 5e8, 5e8), CARD) == pytest.approx(1000 + 4)


def test_only_a_large_product_comes_near_the_ceiling():
    def reached(size: int) -> float:
        op = Op("matmul", 2.0 * size**3, 8.0 * size**2, 4.0 * size**2, shape=(1, size, size, size))
        return op.flops / (op_us(op, CARD) * 1e-6) / CARD.matmul_flops["fp32"]

    assert reached(256) < 0.3 < 0.9 < reached(8192) < 1


def test_more_tiles_than_sms_cost_another_wave():
    """On 100 SMs, 10 x 10 tiles of 128 x 128 fit at once. An inner dimension of 448 is too small to be split."""

    def product_us(columns: int) -> float:
        flops = 2.0 * 1280 * columns * 448
        return op_us(Op("matmul", flops, 0, 0, shape=(1, 1280, columns, 448)), replace(CARD, launch_us=0.0))

    per_column_full, per_column_over = product_us(1280) / 1280, product_us(1408) / 1408
    assert per_column_over > 1.3 * per_column_full


def test_few_tiles_are_split_along_the_inner_dimension():
    """The output is one tile, so without the split only one of 100 SMs would work."""
    op = Op("matmul", 2.0 * 128 * 128 * 65536, 0, 0, shape=(1, 128, 128, 65536))
    assert op_us(op, CARD) < 0.2 * 1e6 * op.flops / (CARD.matmul_flops["fp32"] / CARD.sms)


def test_convolution_is_timed_as_its_equivalent_product():
    conv = Op("conv", 1e11, 1e6, 1e6, shape=(8, 64, 56, 56, 128, 3, 3, 2, 1))
    product = replace(conv, kind="matmul", shape=(1, 8 * 28 * 28, 128, 64 * 9))
    assert op_us(conv, CARD) == op_us(product, CARD)


def test_dtype_without_matrix_units_runs_at_the_fp32_rate():
    op = Op("matmul", 1e13, 0, 0, "fp64", (1, 8192, 8192, 8192))
    assert op_us(op, CARD) > op_us(replace(op, dtype="bf16"), CARD)
    assert op_us(op, CARD) == op_us(replace(op, dtype="fp32"), CARD)


def test_op_that_waits_for_the_host_takes_longer():
    op = Op("copy", 0, 4, 4)
    assert op_us(replace(op, waits=True), CARD) > op_us(op, CARD) + 10


def test_small_ops_are_bound_by_the_host_unless_captured_in_a_graph():
    chain = [Op("vector", 10, 40, 40, count=500, kernels=2)]
    assert step_us(chain, CARD) == pytest.approx(1000 * CARD.host_op_us)
    assert step_us(chain, CARD, graph=True) == pytest.approx(op_us(chain[0], CARD))


def test_gradient_exchange_overlaps_with_backward_except_the_last_bucket():
    size = 1e9
    backward = Op("vector", 0, 1e11, 1e11, phase="backward")
    gradients = Op("allreduce", 0, size, size, phase="communication")
    device_us = op_us(backward, CARD)
    with_two = step_us([backward, gradients], CARD, gpus=2)
    assert step_us([backward, gradients], CARD) == pytest.approx(device_us)
    assert device_us < with_two < device_us + 0.1 * op_us(gradients, CARD)
    without_overlap = step_us([gradients], CARD, gpus=2)
    assert without_overlap == pytest.approx(1e6 * size / CARD.link_bandwidth, rel=0.01)


def test_ring_of_many_cards_sends_nearly_twice_the_bytes():
    exchange = Op("allreduce", 0, 1e9, 1e9)
    two, many = step_us([exchange], CARD, gpus=2), step_us([exchange], CARD, gpus=64)
    assert many / two == pytest.approx(2 * 63 / 64, rel=0.01)


def test_measured_card_uses_its_measurements(monkeypatch: pytest.MonkeyPatch):
    fake_module = ModuleType("measured")
    fake_module.__dict__["op_us"] = lambda op, card: 7.0 * op.count
    monkeypatch.setitem(sys.modules, "gpusquad.predict.analytical.measured", fake_module)
    monkeypatch.setattr(sys.modules["gpusquad.predict.analytical"], "measured", fake_module, raising=False)
    assert op_us(Op("copy", 0, 1, 1, count=3), replace(CARD, measured=True)) == 21.0
