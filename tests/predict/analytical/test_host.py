"""Tests for the host time to issue a step."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.predict.analytical.graph import view
from gpusquad.predict.analytical.host import ELASTICITY, host_us, issue_us
from gpusquad.predict.analytical.measured import MeasuredCard
from gpusquad.predict.analytical.op import Dtype, Op, Phase

IMAGE = (2, 16, 8, 8, 16, 3, 3, 1, 1)
HOST = {
    "module": 2.0, "module.inference": 1.0, "module.backward": 0.0, "pointwise": 12.0, "pointwise.backward": 20.0,
    "pointwise.inference": 6.0, "view": 3.0, "conv": 32.0, "conv.inference": 21.0, "conv.backward": 60.0,
    "conv_bias": 40.0, "matmul": 27.0, "mm": 22.0, "mm.inference": 16.0, "mm.backward": 50.0, "matmul.backward": 70.0,
    "attention": 40.0, "attention_fp32": 25.0, "mix.images": 2.0, "mix.rows": 1.5, "adamw.step": 100.0,
    "adamw.tensor": 2.0, "launch": 5.0,
}  # fmt: skip
CARD = MeasuredCard("test", 10**10, 100, 1e12, 10**7, {"fp32": 1e13}, 1e13, measured=True, host=HOST)


def streaming_op(name="pointwise", phase: Phase = "forward"):
    return Op("vector", 0, 4, 4, name=name, phase=phase)


def conv(direction="forward", phase: Phase = "forward", shape=IMAGE):
    return Op("conv", 1, 1, 1, "tf32", shape, f"conv.{direction}", phase)


def test_op_cost_depends_on_its_pass_and_is_higher_among_other_ops():
    assert host_us([streaming_op()], CARD, training=True) == 1.5 * (12 - 2)
    assert host_us([streaming_op(phase="backward")], CARD, training=True) == 20
    assert host_us([streaming_op()], CARD, training=False) == 6 - 1
    assert host_us([view()], CARD, training=True) == 1.5 * (3 - 2)


def test_module_calls_are_added():
    assert host_us([], CARD, training=True, modules=10) == 20
    assert host_us([], CARD, training=False, modules=10) == 10


def test_both_gradients_of_a_layer_cost_one_table_row():
    both = [conv(direction, "backward") for direction in ("dgrad", "wgrad")]
    assert host_us(both, CARD, training=True) == 60


def test_bias_costs_the_difference_between_layers_with_and_without_it():
    assert issue_us(streaming_op("bias"), CARD, training=True) == 2 * (40 - 32)
    assert issue_us(streaming_op("sum_rows", "backward"), CARD, training=True) == 70 - 50


@pytest.mark.parametrize(("dtype", "cost"), [("bf16", 40.0), ("fp32", 25.0), ("tf32", 25.0)])
def test_attention_cost_depends_on_the_dtype(dtype: Dtype, cost):
    op = Op("attention", 1, 1, 1, dtype, (8, 16, 16, 32), "attention.forward")
    assert issue_us(op, CARD, training=True) == 1.5 * (cost - 2)


def shaped(us, reference_us=10.0):
    """A card on which the library needs ``us`` for the convolution, and ``reference_us`` for the shape of the table."""
    rows = {f"issue.conv.{direction}.tf32": ((*IMAGE, us),) for direction in ("forward", "dgrad", "wgrad")}
    rows |= {
        f"issue.conv.{direction}.reference": ((*IMAGE, reference_us),) for direction in ("forward", "dgrad", "wgrad")
    }
    return replace(CARD, samples=rows)


def test_shape_with_more_library_time_costs_more():
    # The table has 20 us where the library alone needs 10 us, so its 5 us more are 10 us on that host.
    assert issue_us(conv(), shaped(15.0), training=True) == pytest.approx(2 * (30 + 10))
    assert issue_us(conv(), shaped(10.0), training=True) == pytest.approx(2 * 30)
    assert issue_us(conv("dgrad", "backward"), shaped(15.0), training=True) == pytest.approx(30 + 10)


@given(st.floats(1, 1000))
def test_cost_of_a_shape_is_never_negative(us):
    assert issue_us(conv(), shaped(us), training=False) >= 0


def test_recurrent_layer_costs_its_measured_time_or_its_launches():
    op = Op("matmul", 1, 1, 1, "tf32", (16, 4, 64, 32), "lstm.forward", kernels=32)
    measured = replace(CARD, samples={"issue.lstm.forward.tf32": ((4, 16, 16, 16, 333.0),)})
    assert issue_us(op, measured, training=True) == pytest.approx(333)
    assert issue_us(op, CARD, training=True) == 32 * 5


def test_optimiser_cost_has_a_base_and_grows_with_tensors_and_launches():
    small, large = (Op("vector", 0, 4, 4, name="adamw", phase="optimiser", kernels=kernels) for kernels in (8, 40))
    assert host_us([small], CARD, training=True, tensors=50) == 1.5 * 100 + 50 * 2
    assert host_us([large], CARD, training=True, tensors=50) == 1.5 * 100 + 50 * 2 + (40 - 8) * 5
    assert host_us([replace(small, name="adam")], CARD, training=True, tensors=50) >= 1.5 * 100 + 50 * 2


def test_backward_pass_has_a_fixed_cost():
    card = replace(CARD, host={**HOST, "backward": 50.0})
    assert host_us([], card, training=True) == 50
    assert host_us([], card, training=False) == 0


def test_host_time_scales_with_the_pace_by_its_elasticity():
    card = replace(CARD, host={**HOST, "pace": 300.0, ELASTICITY: 0.5})
    base_us = host_us([streaming_op()], card, training=True)
    assert host_us([streaming_op()], card, training=True, pace_us=300.0) == base_us
    assert host_us([streaming_op()], card, training=True, pace_us=1200.0) == pytest.approx(2 * base_us)
    assert host_us([streaming_op()], CARD, training=True, pace_us=1200.0) == base_us, (
        "a card without a measured pace is not scaled"
    )
