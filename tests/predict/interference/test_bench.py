"""What the bench of foretold slowdowns makes of tables; the public data need not be there."""

import json
from dataclasses import replace

import pytest

from bench import _pairs_data, interference_model
from bench._pairs_data import PairsData, of_measured
from gpusquad.model.interference import CoRun
from gpusquad.model.interference_data import to_data
from gpusquad.predict.interference.unseen import Ratio
from tests.predict.interference.made import at, measured, triple

SPLIT = CoRun(("busy", "reader"), (500, 500), (at(0.4), at(0.3)))
TRIPLES = tuple(triple(*names) for names in (("busy", "reader", "middle"), ("busy", "light", "idle"),
                                             ("reader", "middle", "light"), ("busy", "busy", "busy")))  # fmt: skip


def test_both_directions_of_a_run_are_held_out_together():
    data = of_measured(measured())
    for folds in (interference_model.by_pair(data), interference_model.by_pair(data, 5)):
        for train, test in folds:
            left = {frozenset((data.ratios[at].own, data.ratios[at].other)) for at in test}
            assert left
            assert all(frozenset((data.ratios[at].own, data.ratios[at].other)) not in left for at in train)
        assert sorted(at for _, test in folds for at in test) == list(range(len(data.ratios)))


def test_a_model_left_out_is_on_no_side_of_what_is_learnt():
    data = PairsData("d", {}, [Ratio("a1", "b", 1), Ratio("b", "a2", 1), Ratio("b", "c", 1)], [0, 1, 2],
                     {"a1": "a", "a2": "a", "b": "b", "c": "c"})  # fmt: skip
    assert interference_model.by_model(data) == [([2], [0, 1]), ([], [0, 1, 2]), ([0, 1], [2])]


def test_own_tables_are_judged_by_their_bars_and_beat_the_baselines(tmp_path, monkeypatch):
    table = measured(sharing="mps", more=(*TRIPLES, SPLIT))
    (tmp_path / "one.json").write_text(json.dumps(to_data(table)))
    (tmp_path / "two.json").write_text(json.dumps(to_data(replace(table, at_us=2, co_runs=()))))
    (tmp_path / "broken.json").write_text("{")
    monkeypatch.setattr(_pairs_data, "MEASURED", tmp_path)
    monkeypatch.setattr(interference_model, "measured_tables", _pairs_data.measured_tables)
    tables = interference_model.measured_tables()
    assert [len(one.co_runs) for one in tables] == [len(table.co_runs)]
    claims, scored = interference_model._own(tables[0])
    figures = {one.way: one.errors for one in scored if "pair" in one.data}
    assert figures["ours"].mean < figures["linear"].mean < figures["ratio 1"].mean
    bars = [one["bar"] for one in claims]
    assert bars[:2] == [0.05, 0.15]
    assert [one["value"] for one in claims[:2]] == [figures["ours"].median, figures["ours"].p90]
    triples = next(one for one in claims if "triples from pairs" in one["name"])
    assert triples["value"] == pytest.approx(0.0, abs=1e-6)
    assert triples["baseline"] > 0.02
    assert any("splits" in one["name"] for one in claims)


def test_gavels_blanks_are_left_out_and_lucids_sides_go_together(shared_data):
    v100, p100 = (_pairs_data.gavel(gpu) for gpu in ("v100", "p100"))
    assert all(one.own != one.other for one in v100.ratios)
    assert any(one.own == one.other for one in p100.ratios)
    lucid = _pairs_data.lucid()
    assert len(set(lucid.groups)) == 1388
    assert {one.own for one in lucid.ratios} <= set(lucid.traits)
