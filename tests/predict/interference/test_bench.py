"""Tests for the benchmark of the interference model."""

import json
from dataclasses import replace

import pytest

from bench import _pairs_data, interference_model
from bench._pairs_data import PairsData, of_measured
from gpusquad.model.interference import CoRun
from gpusquad.model.interference_data import to_data
from gpusquad.predict.interference.unseen import Ratio
from tests.predict.interference.synthetic import interval, measured, triple

SPLIT = CoRun(("busy", "reader"), (500, 500), (interval(0.4), interval(0.3)))
TRIPLES = tuple(triple(*names) for names in (("busy", "reader", "middle"), ("busy", "light", "idle"),
                                             ("reader", "middle", "light"), ("busy", "busy", "busy")))  # fmt: skip


def test_both_directions_of_a_pair_are_held_out_together():
    data = of_measured(measured())
    for folds in (interference_model.by_pair(data), interference_model.by_pair(data, 5)):
        for train, test in folds:
            held_out = {frozenset((data.ratios[index].own, data.ratios[index].other)) for index in test}
            assert held_out
            assert all(frozenset((data.ratios[index].own, data.ratios[index].other)) not in held_out for index in train)
        assert sorted(index for _, test in folds for index in test) == list(range(len(data.ratios)))


def test_held_out_model_is_absent_from_the_training_pairs():
    data = PairsData("d", {}, [Ratio("a1", "b", 1), Ratio("b", "a2", 1), Ratio("b", "c", 1)], [0, 1, 2],
                     {"a1": "a", "a2": "a", "b": "b", "c": "c"})  # fmt: skip
    assert interference_model.by_model(data) == [([2], [0, 1]), ([], [0, 1, 2]), ([0, 1], [2])]


def test_measured_tables_give_claims_that_beat_the_baselines(tmp_path, monkeypatch):
    table = measured(sharing="mps", more=(*TRIPLES, SPLIT))
    (tmp_path / "one.json").write_text(json.dumps(to_data(table)))
    (tmp_path / "two.json").write_text(json.dumps(to_data(replace(table, at_us=2, co_runs=()))))
    (tmp_path / "broken.json").write_text("{")
    monkeypatch.setattr(_pairs_data, "MEASURED", tmp_path)
    monkeypatch.setattr(interference_model, "measured_tables", _pairs_data.measured_tables)
    tables = interference_model.measured_tables()
    assert [len(item.co_runs) for item in tables] == [len(table.co_runs)]
    claims, scored = interference_model._own(tables[0])
    figures = {item.way: item.errors for item in scored if "pair" in item.data}
    assert figures["ours"].mean < figures["linear"].mean < figures["ratio 1"].mean
    bars = [item["bar"] for item in claims]
    assert bars[:2] == [0.05, 0.15]
    assert [item["value"] for item in claims[:2]] == [figures["ours"].median, figures["ours"].p90]
    triples = next(item for item in claims if "triples from pairs" in item["name"])
    assert triples["value"] == pytest.approx(0.0, abs=1e-6)
    assert triples["baseline"] > 0.02
    assert any("splits" in item["name"] for item in claims)


def test_gavel_blanks_are_omitted_and_lucid_sides_are_grouped(shared_data):
    v100, p100 = (_pairs_data.gavel(gpu) for gpu in ("v100", "p100"))
    assert all(ratio.own != ratio.other for ratio in v100.ratios)
    assert any(ratio.own == ratio.other for ratio in p100.ratios)
    lucid = _pairs_data.lucid()
    assert len(set(lucid.groups)) == 1388
    assert {ratio.own for ratio in lucid.ratios} <= set(lucid.traits)
