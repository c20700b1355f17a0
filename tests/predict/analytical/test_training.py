"""Tests for optimisers, backward passes and step counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.predict.analytical.graph import Graph
from gpusquad.predict.analytical.memory import peak
from gpusquad.predict.analytical.op import Op
from gpusquad.predict.analytical.training import (
    OPTIMISERS,
    backward_of,
    forward_of,
    gradient_exchange,
    optimiser_ops,
    step_count,
    with_optimiser,
)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimiser_traffic_is_its_passes_over_the_parameters(name):
    rule = OPTIMISERS[name]
    (op,) = optimiser_ops(name, {"fp32": 4000}, 10)
    assert (op.read_bytes, op.write_bytes) == (4000 * rule.reads, 4000 * rule.writes)
    assert (op.phase, op.kernels) == ("optimiser", rule.passes)


def test_many_or_large_tensors_need_more_launches():
    few, many = (optimiser_ops("adamw", {"fp32": 400_000}, tensors)[0].kernels for tensors in (10, 600))
    large = optimiser_ops("adamw", {"fp32": 4 << 30}, 10)[0].kernels
    assert few < many
    assert few < large


def test_parameters_of_two_dtypes_are_two_optimiser_ops():
    assert [op.dtype for op in optimiser_ops("sgd", {"fp32": 400, "bf16": 200}, 6)] == ["fp32", "bf16"]


def test_optimiser_state_is_held_and_temporary_memory_is_released():
    graph = Graph((), parameter_bytes={"fp32": 4 << 20}, parameter_tensors=4, held=(4 << 20,))
    found = with_optimiser(graph, "adamw")
    memory = peak(found.events, found.held)
    assert memory.held_bytes == 12 << 20
    assert memory.allocated_bytes == 16 << 20


def test_unknown_optimiser_is_refused_with_the_known_names():
    with pytest.raises(Invalid, match="adamw"):
        with_optimiser(Graph(()), "magic")


@given(st.integers(1, 10**6), st.integers(1, 512), st.integers(1, 64), st.integers(1, 100))
def test_every_item_is_used_once_per_epoch(data, batch, gpus, epochs):
    steps = step_count(None, epochs, data, batch, gpus)
    assert steps * batch * gpus >= epochs * data > (steps - epochs) * batch * gpus


def test_given_steps_are_used_and_missing_data_size_is_refused():
    assert step_count(7, None, None, 1, 1) == 7
    with pytest.raises(Invalid, match="epochs"):
        step_count(None, 3, None, 1, 1)


def test_gradient_exchange_sends_the_gradients_once():
    op = gradient_exchange(Graph((), parameter_bytes={"fp32": 400}))
    assert (op.kind, op.write_bytes, op.phase) == ("allreduce", 400, "communication")


def test_backward_of_a_product_is_two_products():
    forward = Op("matmul", 100.0, 8.0, 4.0, shape=(1, 2, 3, 5), name="matmul.nt")
    back = backward_of(forward)
    assert [op.shape for op in back] == [(1, 2, 5, 3), (1, 3, 5, 2)]
    assert sum(op.flops for op in back) == 200
    assert all(op.phase == "backward" for op in back)
    assert len(backward_of(forward, of_input=False)) == 1


def test_backward_of_other_ops():
    conv = Op("conv", 10.0, 1.0, 1.0, shape=(1,) * 9, name="conv.forward")
    assert [op.name for op in backward_of(conv)] == ["conv.dgrad", "conv.wgrad"]
    attention = Op("attention", 10.0, 3.0, 1.0, shape=(1,) * 4, name="attention.forward")
    assert backward_of(attention)[0].flops == 25
    norm = Op("reduce", 1.0, 10.0, 10.0, name="batch_norm_eval")
    assert backward_of(norm)[0].name == "batch_norm_backward"
    assert forward_of(norm).name == "batch_norm"
    assert backward_of(Op("vector", 1.0, 10.0, 5.0, name="pointwise"))[0].moved_bytes == 25
