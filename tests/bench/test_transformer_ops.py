"""Tests of the op lists of transformers: published sizes, FLOPs, and relations between configurations."""

from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.analytical_models.transformer_ops import MODELS, RunConfig, transformer_ops
from gpusquad.model.errors import Invalid
from gpusquad.predict.analytical.cards import find
from gpusquad.predict.analytical.op import Op
from gpusquad.predict.analytical.timing import step_us

MILLIONS = {"bert_large": 335, "gpt2": 124, "gpt2_medium": 355, "gpt2_large": 774, "gpt2_xl": 1558, "opt_125m": 125,
            "opt_13": 1316}  # fmt: skip
"""Parameters as published with the models."""

names = st.sampled_from(sorted(MODELS))
runs = st.builds(
    RunConfig,
    seq_len=st.integers(1, 2048),
    batch=st.integers(1, 16),
    training=st.booleans(),
    dtype=st.sampled_from(("fp32", "bf16")),
    fused=st.booleans(),
    accumulates=st.booleans(),
)


def total(ops: list[Op], amount: str, **attributes: str) -> float:
    chosen = [op for op in ops if all(getattr(op, name) == value for name, value in attributes.items())]
    return sum(op.count * getattr(op, amount) for op in chosen)


@pytest.mark.parametrize(("name", "millions"), MILLIONS.items())
def test_gradients_are_as_many_as_the_published_parameters(name: str, millions: int):
    """Position embeddings are left out."""
    ops = transformer_ops(MODELS[name], RunConfig(512, 1, training=True))
    values = total(ops, "write_bytes", name="gradients") / 4
    assert values / 1e6 == pytest.approx(millions, rel=0.015)


@given(names, runs)
def test_every_op_moves_bytes_or_waits(name: str, run: RunConfig):
    for op in transformer_ops(MODELS[name], run):
        assert op.count >= 1
        assert min(op.flops, op.read_bytes, op.write_bytes) >= 0
        assert op.moved_bytes > 0 or op.waits
        if op.kind == "matmul":
            batch, m, n, k = op.shape
            assert op.flops == 2 * batch * m * n * k


@given(names, runs)
def test_backward_pass_has_twice_the_matmul_flops(name: str, run: RunConfig):
    ops = transformer_ops(MODELS[name], replace(run, training=True))
    forward = total(ops, "flops", kind="matmul", phase="forward")
    assert total(ops, "flops", kind="matmul", phase="backward") == pytest.approx(2 * forward)


@given(names, runs)
def test_inference_has_only_forward_ops(name: str, run: RunConfig):
    ops = transformer_ops(MODELS[name], replace(run, training=False))
    assert {op.phase for op in ops} == {"forward"}


@given(names, runs)
def test_fusion_moves_fewer_bytes_and_keeps_matmul_flops(name: str, run: RunConfig):
    fused, eager = (transformer_ops(MODELS[name], replace(run, fused=fused)) for fused in (True, False))
    assert total(fused, "moved_bytes") < total(eager, "moved_bytes")
    assert total(fused, "flops", kind="matmul") == total(eager, "flops", kind="matmul")


@pytest.mark.parametrize("name", ["bert_large", "gpt2_large", "opt_13"])
def test_tensor_parallel_cards_split_matmuls_and_synchronise_twice_per_layer(name: str):
    model, run = MODELS[name], RunConfig(1024, 4, training=True)
    alone, shared = transformer_ops(model, run), transformer_ops(model, replace(run, tensor_parallel=4))
    parts = total(shared, "flops", kind="matmul") / total(alone, "flops", kind="matmul")
    assert parts == pytest.approx(0.25, rel=0.02)
    assert sum(op.count for op in shared if op.name == "meet") == 4 * model.layers
    assert not any(op.name == "meet" for op in alone)


@given(names, st.integers(1, 8), st.integers(16, 512))
def test_doubled_batch_takes_no_less_time(name: str, batch: int, seq_len: int):
    card = find("NVIDIA H100 80GB HBM3")
    assert card is not None
    small, large = (
        transformer_ops(MODELS[name], RunConfig(seq_len, size, training=True)) for size in (batch, 2 * batch)
    )
    assert step_us(large, card) >= step_us(small, card)


def test_forward_flops_are_two_per_parameter_and_token_plus_attention():
    model, run = MODELS["gpt2_large"], RunConfig(1024, 2)
    tokens = run.seq_len * run.batch
    layers = model.layers * 12 * model.hidden**2 + model.vocab * model.hidden
    attention = model.layers * 4 * run.batch * run.seq_len**2 * model.hidden
    flops = total(transformer_ops(model, run), "flops", kind="matmul")
    assert flops == pytest.approx(2 * tokens * layers + attention)


def test_experts_are_padded_to_capacity_and_make_the_host_wait():
    model = MODELS["switchxl4"]
    ops = transformer_ops(model, RunConfig(512, 2))
    rows = {op.shape[1] for op in ops if op.name == "up"}
    assert rows == {1024, 2 * model.capacity}
    assert any(op.waits for op in ops)


@pytest.mark.parametrize(
    "run", [RunConfig(0, 1), RunConfig(1, 0), RunConfig(1, 1, tensor_parallel=0), RunConfig(1, 1, dtype="int8")]
)
def test_invalid_run_configurations_are_refused(run: RunConfig):
    with pytest.raises(Invalid):
        transformer_ops(MODELS["gpt2"], run)


@pytest.mark.usefixtures("shared_data")
def test_shipped_constants_meet_the_documented_error():
    """Over all cards and models of the public measurements. The bench leaves each out of the fit in turn."""
    from bench.neusight import read_rows

    errors = {}
    for row in read_rows():
        predicted_ms = step_us(row.ops, row.sheet.card(), row.gpus) / 1e3
        errors.setdefault(row.gpu, []).append(abs(predicted_ms / row.measured_ms - 1))
    assert fmean(error for of_gpu in errors.values() for error in of_gpu) < 0.065
    assert max(fmean(of_gpu) for of_gpu in errors.values()) < 0.25
