"""Tests for the rate of a job beside neighbours."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.model.interference import CoRun, Rate
from gpusquad.model.job import Profile
from gpusquad.predict.interference import InterferenceTable
from tests.predict.interference.synthetic import CARD, GIB, USE, expected_rate, job, measured, pair, triple

NAMES = sorted(USE)
TABLE = InterferenceTable([measured()])


def jobs(*names: str):
    return [job(name, name=f"{name}-{index}") for index, name in enumerate(names)]


def test_measured_pairs_have_their_measured_rates():
    rate: Rate = TABLE
    for own in NAMES:
        for other in NAMES:
            assert rate(job(own), [job(other)], CARD) == pytest.approx(expected_rate(own, [other]))
            assert TABLE.estimate(job(own), job(other), CARD).source == "measured"


def test_table_knows_measured_and_learned_pairs_only():
    table = InterferenceTable([measured()])
    busy, new = job(NAMES[0]), job("new")
    assert table.knows(busy, job(NAMES[1]), CARD)
    assert not table.knows(busy, new, CARD)
    assert not table.knows(new, busy, CARD)
    table.learn(new, [busy], CARD, 0.8, 600.0)
    assert table.knows(new, busy, CARD)
    assert not table.knows(busy, new, CARD)
    assert not InterferenceTable().knows(busy, busy)


def test_rate_alone_is_one():
    assert TABLE(job("busy"), [], CARD) == 1.0
    assert InterferenceTable()(job(), []) == 1.0


@given(st.sampled_from([*NAMES, "", "new"]), st.lists(st.sampled_from([*NAMES, "", "new"]), min_size=1, max_size=4),
       st.sampled_from([CARD, "", "some other card"]), st.booleans())  # fmt: skip
def test_rate_is_within_bounds_and_at_most_that_beside_each_neighbour(own, others, gpu, with_profile):
    profile = Profile(0.5, 1 * GIB, 0.2) if with_profile else None
    own_job, neighbours = job(own, profile), [job(other, profile) for other in others]
    rate = TABLE.rate(own_job, neighbours, gpu)
    assert 0.0 <= rate <= 1.2
    assert all(rate <= TABLE.rate(own_job, [neighbour], gpu) + 1e-12 for neighbour in neighbours)
    assert rate == pytest.approx(TABLE.rate(own_job, neighbours[::-1], gpu))
    assert rate == TABLE.rate(own_job, neighbours, gpu)
    assert own in TABLE.explain(own_job, neighbours, gpu)


def test_symmetric_measurements_give_symmetric_rates():
    symmetric = measured()
    symmetric = replace(
        symmetric, co_runs=tuple(replace(run, ratios=(run.ratios[0],) * 2) for run in symmetric.co_runs)
    )
    table = InterferenceTable([symmetric])
    for own in NAMES:
        for other in NAMES:
            assert table(job(own), [job(other)], CARD) == table(job(other), [job(own)], CARD)


def test_settings_are_kept_apart_and_the_newest_series_is_used():
    old = replace(measured(at_us=1), co_runs=(pair("busy", "idle", 0.1, 0.1),))
    new = replace(measured(at_us=2), co_runs=(pair("busy", "idle", 0.2, 0.2),))
    mps = replace(measured(at_us=3, sharing="mps"), co_runs=(pair("busy", "idle", 0.3, 0.3),))
    other_card = replace(measured(at_us=4, gpu="Else 1"), co_runs=(pair("busy", "idle", 0.4, 0.4),))
    all_series = [new, old, mps, other_card]
    pair_of_jobs = jobs("busy", "idle")
    assert InterferenceTable(all_series)(pair_of_jobs[0], pair_of_jobs[1:], CARD) == pytest.approx(0.2)
    assert InterferenceTable(all_series, "mps")(pair_of_jobs[0], pair_of_jobs[1:], CARD) == pytest.approx(0.3)
    assert InterferenceTable(all_series)(pair_of_jobs[0], pair_of_jobs[1:], "Else 1") == pytest.approx(0.4)
    assert InterferenceTable(all_series)(pair_of_jobs[0], pair_of_jobs[1:], "9000") == pytest.approx(0.2)
    assert InterferenceTable(all_series)(pair_of_jobs[0], pair_of_jobs[1:]) == pytest.approx(0.4)


def test_unmeasured_card_uses_profiles_or_a_default():
    table = InterferenceTable([measured()])
    busy = Profile(1.0)
    assert table(job("busy", busy), [job("x", busy)], "another") == pytest.approx(0.5)
    assert table.estimate(job("busy"), job("idle"), "another").source == "default"
    assert 0.0 < table(job("busy"), [job("idle")], "another") < 1.0


def test_data_for_a_card_contains_measurements_only():
    assert TABLE.curve(job("middle"), CARD) == measured().solo("middle").by_sm
    assert TABLE.curve(job("new"), CARD) == TABLE.curve(job("middle"), "another") == ()
    assert TABLE.solo_per_s(job("middle"), CARD) == measured().solo("middle").steps_per_s.mean > 0
    assert TABLE.solo_per_s(job("new"), CARD) == TABLE.solo_per_s(job("middle"), "another") == 0.0
    beside = TABLE.beside(job("busy"), jobs("idle", "new", "", "light"), CARD)
    assert beside == {name: pytest.approx(expected_rate("busy", [name])) for name in ("idle", "light")}
    table = InterferenceTable([measured()])
    for _ in range(9):  # a policy protects the job, so this is not its rate without a policy
        table.learn(job("busy"), [job("light")], CARD, 0.99, 6000.0)
    assert table(job("busy"), [job("light")], CARD) > beside["light"] * 1.05
    assert table.beside(job("busy"), [job("light")], CARD) == {"light": beside["light"]}


def test_job_of_an_unknown_app_is_estimated_from_its_profile():
    found = TABLE.estimate(job("new", Profile(0.6, 4 * GIB, 0.4)), job("busy"), CARD)
    assert found.source == "features"
    assert found.rate == pytest.approx(expected_rate("middle", ["busy"]), rel=0.15)
    assert TABLE.estimate(job("new"), job("busy"), CARD).source == "default"


def test_pair_measured_out_of_memory_does_not_fit_from_either_side():
    table = measured()
    runs = [run for run in table.co_runs if set(run.workloads) != {"busy", "idle"}]
    out_of_memory_run = CoRun(("busy", "idle"), (1000, 1000), out_of_memory=(True, False))
    found = InterferenceTable([replace(table, co_runs=(*runs, out_of_memory_run))])
    assert found(job("busy"), [job("idle")], CARD) == found(job("idle"), [job("busy")], CARD) == 0.0
    assert found(job("busy"), jobs("light", "idle"), CARD) == 0.0
    assert "does not fit" in found.explain(job("busy"), [job("idle")], CARD)


def test_jobs_that_need_more_memory_than_the_card_do_not_fit():
    assert TABLE(job("busy"), jobs("idle", "idle", "light"), CARD) > 0.0  # 16 of 16 GiB
    assert TABLE(job("busy"), jobs("idle", "idle", "light", "light"), CARD) == 0.0
    assert "do not fit" in TABLE.explain(job("busy"), jobs("idle", "idle", "light", "light"), CARD)
    large = Profile(0.5, 13 * GIB)
    assert TABLE(job("new", large), [job("busy")], CARD) == 0.0
    without_memory = InterferenceTable([measured(memory_gib=None)])
    assert without_memory(job("new", large), [job("busy")], CARD) > 0.0
    with_memory = InterferenceTable([measured(memory_gib=None)], memory_bytes={CARD: 16 * GIB})
    assert with_memory(job("new", large), [job("busy")], CARD) == 0.0


def test_rate_beside_several_neighbours_follows_the_measured_triples():
    names = [("busy", "reader", "middle"), ("busy", "light", "idle"), ("reader", "middle", "light"),
             ("busy", "busy", "busy")]  # fmt: skip
    table = InterferenceTable(
        [measured(more=tuple(triple(*triple_names) for triple_names in names), sharing="mps")], "mps"
    )
    assert table.combination(CARD).name == "odds"
    assert table(job("busy"), jobs("middle", "light"), CARD) == pytest.approx(
        expected_rate("busy", ["middle", "light"])
    )
    product = expected_rate("busy", ["middle"]) * expected_rate("busy", ["light"])
    runs = tuple(
        triple(
            *triple_names,
            ratios=tuple(expected_rate(a, [b]) * expected_rate(a, [c]) for a, b, c in _each_first(triple_names)),
        )
        for triple_names in names
    )
    by_product = InterferenceTable([measured(more=runs)])
    assert by_product(job("busy"), jobs("middle", "light"), CARD) == pytest.approx(product)


def _each_first(names: tuple[str, str, str]) -> list[tuple[str, str, str]]:
    a, b, c = names
    return [(a, b, c), (b, a, c), (c, a, b)]


def test_explain_names_the_source_of_a_rate():
    table = InterferenceTable([measured(("busy", "idle"))])
    assert "(measured)" in table.explain(job("busy"), [job("light")], CARD)
    assert "beside others" in table.explain(job("busy"), [job("idle")], CARD)
    assert "use alone" in table.explain(job("new", Profile(0.5)), [job("idle")], CARD)
    assert "default" in table.explain(job("new"), [job("idle")], CARD)
    assert "full speed" in table.explain(job("busy"), [], CARD)
    assert "odds" in table.explain(job("busy"), jobs("light", "middle"), CARD)
    table.learn(job("busy"), [job("light")], CARD, 0.5, 7200)
    assert "2.0 h of running jobs" in table.explain(job("busy"), [job("light")], CARD)


def test_learned_rate_round_trips_through_json():
    table = InterferenceTable([measured(("busy", "idle"))])
    before = table(job("busy"), [job("idle")], CARD)
    for _ in range(100):
        table.learn(job("busy"), [job("idle")], CARD, 0.6, 3600)
    assert table(job("busy"), [job("idle")], CARD) == pytest.approx(0.6, rel=0.03)
    restored = InterferenceTable([measured(("busy", "idle"))])
    assert restored(job("busy"), [job("idle")], CARD) == pytest.approx(before)
    restored.load(json.loads(json.dumps(table.dump())))
    assert restored(job("busy"), [job("idle")], CARD) == table(job("busy"), [job("idle")], CARD)
    with pytest.raises(Invalid):
        restored.load({"format": 0})
    assert restored.dump() == table.dump()


def test_rates_are_learned_beside_several_neighbours_of_one_app():
    table = InterferenceTable([measured(("busy", "idle"))])
    for _ in range(200):
        table.learn(job("busy"), jobs("idle", "idle"), CARD, 0.5, 3600)
    assert table(job("busy"), jobs("idle", "idle"), CARD) == pytest.approx(0.5, rel=0.05)


@given(
    st.lists(st.floats(1e-3, 100), min_size=1, max_size=20), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)
)
def test_false_observations_change_measured_pairs_little(ratios, others):
    table = InterferenceTable([measured(memory_gib=None)])
    clean = {(own, other): table(job(own), [job(other)], CARD) for own in NAMES for other in NAMES}
    for ratio in ratios:
        table.learn(job("busy"), jobs(*others), CARD, ratio, 1e5)
    for (own, other), rate in clean.items():
        assert 1 / 1.26 < table(job(own), [job(other)], CARD) / rate < 1.26


def test_nothing_is_learned_without_an_app_or_neighbours():
    table = InterferenceTable([measured()])
    table.learn(job(), [job("busy")], CARD, 0.5, 100)
    table.learn(job("busy"), [job()], CARD, 0.5, 100)
    table.learn(job("busy"), [], CARD, 0.5, 100)
    assert table.dump()["pairs"] == []


def test_series_of_one_setting_are_merged_with_newer_values_first():
    pairs = replace(measured(at_us=1), co_runs=(pair("busy", "idle", 0.1, 0.2), pair("busy", "light", 0.3, 0.4)))
    later = replace(measured(at_us=2), co_runs=(pair("idle", "busy", 0.5, 0.6),))
    table = InterferenceTable([later, pairs])
    assert table(job("busy"), [job("idle")], CARD) == pytest.approx(0.6)
    assert table(job("busy"), [job("light")], CARD) == pytest.approx(0.3)


def test_series_of_the_whole_card_are_preferred():
    whole = replace(measured(at_us=1, memory_gib=None), co_runs=(pair("busy", "idle", 0.1, 0.2),))
    part = replace(measured(at_us=2), co_runs=(pair("busy", "idle", 0.5, 0.6),))
    assert InterferenceTable([whole, part])(job("busy"), [job("idle")], CARD) == pytest.approx(0.1)


def test_triple_measured_out_of_memory_does_not_fit_with_a_fourth_job():
    out_of_memory_run = CoRun(("busy", "idle", "idle"), (1000,) * 3, out_of_memory=(False, True, False))
    table = InterferenceTable([measured(more=(out_of_memory_run,), memory_gib=None)])
    assert table(job("idle"), jobs("busy", "idle"), CARD) == 0.0
    assert table(job("idle"), jobs("busy", "idle", "light"), CARD) == 0.0
    assert table(job("idle"), jobs("busy", "light"), CARD) > 0.0
    assert "do not fit" in table.explain(job("idle"), jobs("busy", "idle"), CARD)
