"""What a host needs to issue a step."""

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


def stream(name="pointwise", phase: Phase = "forward"):
    return Op("vector", 0, 4, 4, name=name, phase=phase)


def conv(way="forward", phase: Phase = "forward", shape=IMAGE):
    return Op("conv", 1, 1, 1, "tf32", shape, f"conv.{way}", phase)


def test_an_op_costs_by_its_way_and_more_among_others():
    assert host_us([stream()], CARD, training=True) == 1.5 * (12 - 2)
    assert host_us([stream(phase="backward")], CARD, training=True) == 20
    assert host_us([stream()], CARD, training=False) == 6 - 1
    assert host_us([view()], CARD, training=True) == 1.5 * (3 - 2)


def test_calls_of_modules_come_on_top():
    assert host_us([], CARD, training=True, modules=10) == 20
    assert host_us([], CARD, training=False, modules=10) == 10


def test_both_gradients_of_a_layer_are_one_row_of_the_table():
    both = [conv(way, "backward") for way in ("dgrad", "wgrad")]
    assert host_us(both, CARD, training=True) == 60


def test_a_bias_costs_what_a_layer_with_one_costs_more():
    assert issue_us(stream("bias"), CARD, training=True) == 2 * (40 - 32)
    assert issue_us(stream("sum_rows", "backward"), CARD, training=True) == 70 - 50


@pytest.mark.parametrize(("dtype", "cost"), [("bf16", 40.0), ("fp32", 25.0), ("tf32", 25.0)])
def test_attention_takes_another_way_in_long_numbers(dtype: Dtype, cost):
    op = Op("attention", 1, 1, 1, dtype, (8, 16, 16, 32), "attention.forward")
    assert issue_us(op, CARD, training=True) == 1.5 * (cost - 2)


def shaped(us, reference_us=10.0):
    """A card on which every shape takes the library so long, and the one of the table ``reference_us``."""
    rows = {f"issue.conv.{way}.tf32": ((*IMAGE, us),) for way in ("forward", "dgrad", "wgrad")}
    rows |= {f"issue.conv.{way}.reference": ((*IMAGE, reference_us),) for way in ("forward", "dgrad", "wgrad")}
    return replace(CARD, samples=rows)


def test_a_shape_that_the_library_does_more_for_costs_more():
    # 20 us in a row for what the library alone took 10 for: its 5 more are 10 of that host's.
    assert issue_us(conv(), shaped(15.0), training=True) == pytest.approx(2 * (30 + 10))
    assert issue_us(conv(), shaped(10.0), training=True) == pytest.approx(2 * 30)
    assert issue_us(conv("dgrad", "backward"), shaped(15.0), training=True) == pytest.approx(30 + 10)


@given(st.floats(1, 1000))
def test_a_shape_never_costs_less_than_nothing(us):
    assert issue_us(conv(), shaped(us), training=False) >= 0


def test_a_recurrent_layer_costs_what_its_shape_did():
    op = Op("matmul", 1, 1, 1, "tf32", (16, 4, 64, 32), "lstm.forward", kernels=32)
    measured = replace(CARD, samples={"issue.lstm.forward.tf32": ((4, 16, 16, 16, 333.0),)})
    assert issue_us(op, measured, training=True) == pytest.approx(333)
    assert issue_us(op, CARD, training=True) == 32 * 5


def test_the_optimiser_costs_a_start_its_tensors_and_the_launches_that_large_ones_need():
    small, large = (Op("vector", 0, 4, 4, name="adamw", phase="optimiser", kernels=kernels) for kernels in (8, 40))
    assert host_us([small], CARD, training=True, tensors=50) == 1.5 * 100 + 50 * 2
    assert host_us([large], CARD, training=True, tensors=50) == 1.5 * 100 + 50 * 2 + (40 - 8) * 5
    assert host_us([replace(small, name="adam")], CARD, training=True, tensors=50) >= 1.5 * 100 + 50 * 2


def test_a_backward_pass_has_a_start_that_costs():
    card = replace(CARD, host={**HOST, "backward": 50.0})
    assert host_us([], card, training=True) == 50
    assert host_us([], card, training=False) == 0


def test_a_slower_host_takes_longer_as_far_as_ops_go_by_its_pace():
    card = replace(CARD, host={**HOST, "pace": 300.0, ELASTICITY: 0.5})
    calm = host_us([stream()], card, training=True)
    assert host_us([stream()], card, training=True, pace_us=300.0) == calm
    assert host_us([stream()], card, training=True, pace_us=1200.0) == pytest.approx(2 * calm)
    assert host_us([stream()], CARD, training=True, pace_us=1200.0) == calm, "nothing to compare it with"
