"""Tests for the offline estimate of a run from a given graph."""

import json
from typing import cast

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.predict.analytical import timing
from gpusquad.predict.analytical.card import CardRoofline, known
from gpusquad.predict.analytical.estimate import estimate, find_card, load_card, run_quantiles
from gpusquad.predict.analytical.graph import Graph
from gpusquad.predict.analytical.op import Op

SHEET = cast(CardRoofline, known("NVIDIA H200"))


def graph(**changes):
    ops = (
        Op("matmul", 2e12, 1e8, 1e8, "bf16", (1, 10000, 10000, 10000), "matmul.nt"),
        Op("matmul", 4e12, 2e8, 2e8, "bf16", (1, 10000, 10000, 20000), "matmul.nn", "backward"),
    )
    fields = {
        "ops": ops, "events": ((1, 1 << 30), (1, 0)), "held": (1 << 28,), "parameter_bytes": {"fp32": 1 << 28},
        "parameter_tensors": 10, "parameters": 1 << 26, "batch": 32,
    }  # fmt: skip
    return Graph(**{**fields, **changes})


def test_run_time_is_the_step_time_times_the_steps():
    found = estimate(graph(), None, 100)
    assert found.run_us.at(0.5) == pytest.approx(100 * found.step_us, rel=1e-3)
    assert (found.run_us.source, found.steps, found.card) == ("analytical", 100, "NVIDIA H200")
    assert found.run_us.values == tuple(sorted(found.run_us.values))
    assert set(found.phases_us) == {"forward", "backward", "optimiser"}
    assert found.step_us == pytest.approx(sum(found.phases_us.values()))


def test_steps_are_computed_from_epochs_and_data_size():
    assert estimate(graph(), None, epochs=2, data_size=1000, gpus=4).steps == 2 * 8


def test_several_gpus_add_communication_time():
    alone, four = (estimate(graph(), None, 1, gpus=gpus) for gpus in (1, 4))
    assert four.step_us > alone.step_us
    assert four.phases_us["communication"] == pytest.approx(four.step_us - alone.step_us)


def test_inference_has_no_optimiser_phase():
    found = estimate(graph(), None, 1, training=False)
    assert "optimiser" not in found.phases_us
    assert found.memory.allocated_bytes < estimate(graph(), None, 1).memory.allocated_bytes


def test_memory_includes_state_activations_and_context():
    found = estimate(graph(), None, 1, optimizer="adamw")
    assert found.memory.held_bytes >= 3 << 28
    assert found.memory.allocated_bytes >= (3 << 28) + (1 << 30)
    assert found.peak_memory_bytes == found.memory.card_bytes > found.memory.reserved_bytes


def test_many_small_ops_are_bound_by_the_host_unless_compiled():
    small = graph(ops=tuple(Op("vector", 10.0, 40.0, 40.0, name="pointwise") for _ in range(1000)))
    eager, captured = (estimate(small, None, 1, training=False, compiled=compiled) for compiled in (False, True))
    assert eager.bound_by == "host"
    assert captured.bound_by == "card"
    assert captured.step_us < eager.step_us


def test_unknown_ops_lower_the_confidence_and_widen_the_range():
    sure, unsure = (estimate(graph(unknown=unknown), None, 1).run_us for unknown in ({}, {"strange": 1}))
    assert unsure.confidence < sure.confidence
    assert unsure.at(0.9) / unsure.at(0.5) > sure.at(0.9) / sure.at(0.5)


@pytest.mark.parametrize(("bound", "other"), [("card", "host"), ("card", "sheet")])
def test_confidence_is_highest_when_bound_by_a_measured_card(bound, other):
    near, far = run_quantiles(1e6, bound), run_quantiles(1e6, other)
    assert near.confidence > far.confidence
    assert near.at(0.9) < far.at(0.9)


@pytest.mark.parametrize("wrong", [{"precision": "fp7"}, {"gpus": 0}, {"card": "Abacus 3"}, {"optimizer": "magic"}])
def test_unknown_arguments_are_refused(wrong):
    with pytest.raises(Invalid):
        estimate(graph(), None, 1, **wrong)


def test_shipped_calibrated_card_has_no_host_measurements():
    card = find_card("NVIDIA H200")
    assert card.measured
    assert card.host_op_us == SHEET.host_op_us
    assert (
        estimate(graph(), None, 1, card=card).run_us.confidence
        > estimate(graph(), None, 1, card="A100-SXM4-40GB").run_us.confidence
    )


def test_estimate_is_slower_than_the_data_sheet():
    found = estimate(graph(), None, 1, card=SHEET, training=False)
    assert found.phases_us["forward"] > timing.op_us(graph().ops[0], SHEET)


def test_card_is_loaded_from_a_file(tmp_path):
    path = tmp_path / "card.json"
    path.write_text(json.dumps(SHEET.to_dict()), encoding="utf-8")
    assert load_card(path) == find_card(path) == find_card(SHEET) == SHEET
