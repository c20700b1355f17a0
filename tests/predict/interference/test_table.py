"""The rate of a job among others."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.model.interference import CoRun, Rate
from gpusquad.model.job import Profile
from gpusquad.predict.interference import InterferenceTable
from tests.predict.interference.made import CARD, GIB, USE, job, measured, pair, shared, triple

NAMES = sorted(USE)
TABLE = InterferenceTable([measured()])


def jobs(*names: str):
    return [job(name, name=f"{name}-{at}") for at, name in enumerate(names)]


def test_measured_pairs_come_out_as_measured():
    rate: Rate = TABLE
    for own in NAMES:
        for other in NAMES:
            assert rate(job(own), [job(other)], CARD) == pytest.approx(shared(own, [other]))
            assert TABLE.estimate(job(own), job(other), CARD).source == "measured"


def test_alone_is_one():
    assert TABLE(job("busy"), [], CARD) == 1.0
    assert InterferenceTable()(job(), []) == 1.0


@given(st.sampled_from([*NAMES, "", "new"]), st.lists(st.sampled_from([*NAMES, "", "new"]), min_size=1, max_size=4),
       st.sampled_from([CARD, "", "some other card"]), st.booleans())  # fmt: skip
def test_rates_are_within_bounds_and_never_above_that_beside_any_one(own, others, gpu, with_profile):
    profile = Profile(0.5, 1 * GIB, 0.2) if with_profile else None
    mine, theirs = job(own, profile), [job(other, profile) for other in others]
    rate = TABLE.rate(mine, theirs, gpu)
    assert 0.0 <= rate <= 1.2
    assert all(rate <= TABLE.rate(mine, [one], gpu) + 1e-12 for one in theirs)
    assert rate == pytest.approx(TABLE.rate(mine, theirs[::-1], gpu))
    assert rate == TABLE.rate(mine, theirs, gpu)
    assert own in TABLE.explain(mine, theirs, gpu)


def test_symmetric_figures_give_symmetric_rates():
    even = measured()
    even = replace(even, co_runs=tuple(replace(run, ratios=(run.ratios[0],) * 2) for run in even.co_runs))
    table = InterferenceTable([even])
    for own in NAMES:
        for other in NAMES:
            assert table(job(own), [job(other)], CARD) == table(job(other), [job(own)], CARD)


def test_settings_are_not_mixed_and_the_newest_counts():
    old = replace(measured(at_us=1), co_runs=(pair("busy", "idle", 0.1, 0.1),))
    new = replace(measured(at_us=2), co_runs=(pair("busy", "idle", 0.2, 0.2),))
    other_way = replace(measured(at_us=3, sharing="mps"), co_runs=(pair("busy", "idle", 0.3, 0.3),))
    other_card = replace(measured(at_us=4, gpu="Else 1"), co_runs=(pair("busy", "idle", 0.4, 0.4),))
    every = [new, old, other_way, other_card]
    both = jobs("busy", "idle")
    assert InterferenceTable(every)(both[0], both[1:], CARD) == pytest.approx(0.2)
    assert InterferenceTable(every, "mps")(both[0], both[1:], CARD) == pytest.approx(0.3)
    assert InterferenceTable(every)(both[0], both[1:], "Else 1") == pytest.approx(0.4)
    assert InterferenceTable(every)(both[0], both[1:], "9000") == pytest.approx(0.2)
    assert InterferenceTable(every)(both[0], both[1:]) == pytest.approx(0.4)


def test_a_card_nobody_measured_goes_by_profiles_then_by_a_default():
    table = InterferenceTable([measured()])
    busy = Profile(1.0)
    assert table(job("busy", busy), [job("x", busy)], "another") == pytest.approx(0.5)
    assert table.estimate(job("busy"), job("idle"), "another").source == "default"
    assert 0.0 < table(job("busy"), [job("idle")], "another") < 1.0


def test_a_card_is_told_what_is_known_of_its_jobs_and_no_guesses():
    assert TABLE.curve(job("middle"), CARD) == measured().solo("middle").by_sm
    assert TABLE.curve(job("new"), CARD) == TABLE.curve(job("middle"), "another") == ()
    assert TABLE.solo_per_s(job("middle"), CARD) == measured().solo("middle").steps_per_s.mean > 0
    assert TABLE.solo_per_s(job("new"), CARD) == TABLE.solo_per_s(job("middle"), "another") == 0.0
    beside = TABLE.beside(job("busy"), jobs("idle", "new", "", "light"), CARD)
    assert beside == {name: pytest.approx(shared("busy", [name])) for name in ("idle", "light")}
    table = InterferenceTable([measured()])
    for _ in range(9):  # a policy protects it: that says nothing of how it is with nobody in between
        table.learn(job("busy"), [job("light")], CARD, 0.99, 6000.0)
    assert table(job("busy"), [job("light")], CARD) > beside["light"] * 1.05
    assert table.beside(job("busy"), [job("light")], CARD) == {"light": beside["light"]}


def test_a_job_of_unknown_name_goes_by_its_profile():
    found = TABLE.estimate(job("new", Profile(0.6, 4 * GIB, 0.4)), job("busy"), CARD)
    assert found.source == "features"
    assert found.rate == pytest.approx(shared("middle", ["busy"]), rel=0.15)
    assert TABLE.estimate(job("new"), job("busy"), CARD).source == "default"


def test_what_was_measured_out_of_memory_does_not_fit_whichever_side_asks():
    table = measured()
    runs = [run for run in table.co_runs if set(run.workloads) != {"busy", "idle"}]
    out = CoRun(("busy", "idle"), (1000, 1000), out_of_memory=(True, False))
    found = InterferenceTable([replace(table, co_runs=(*runs, out))])
    assert found(job("busy"), [job("idle")], CARD) == found(job("idle"), [job("busy")], CARD) == 0.0
    assert found(job("busy"), jobs("light", "idle"), CARD) == 0.0
    assert "does not fit" in found.explain(job("busy"), [job("idle")], CARD)


def test_memory_that_sums_to_more_than_the_card_does_not_fit():
    assert TABLE(job("busy"), jobs("idle", "idle", "light"), CARD) > 0.0  # 16 of 16 GiB
    assert TABLE(job("busy"), jobs("idle", "idle", "light", "light"), CARD) == 0.0
    assert "do not fit" in TABLE.explain(job("busy"), jobs("idle", "idle", "light", "light"), CARD)
    large = Profile(0.5, 13 * GIB)
    assert TABLE(job("new", large), [job("busy")], CARD) == 0.0
    free = InterferenceTable([measured(memory_gib=None)])
    assert free(job("new", large), [job("busy")], CARD) > 0.0
    told = InterferenceTable([measured(memory_gib=None)], memory_bytes={CARD: 16 * GIB})
    assert told(job("new", large), [job("busy")], CARD) == 0.0


def test_several_neighbours_count_as_triples_showed():
    names = [("busy", "reader", "middle"), ("busy", "light", "idle"), ("reader", "middle", "light"),
             ("busy", "busy", "busy")]  # fmt: skip
    table = InterferenceTable([measured(more=tuple(triple(*one) for one in names), sharing="mps")], "mps")
    assert table.combination(CARD).name == "odds"
    assert table(job("busy"), jobs("middle", "light"), CARD) == pytest.approx(shared("busy", ["middle", "light"]))
    product = shared("busy", ["middle"]) * shared("busy", ["light"])
    runs = tuple(
        triple(*one, ratios=tuple(shared(a, [b]) * shared(a, [c]) for a, b, c in _each_first(one))) for one in names
    )
    by_product = InterferenceTable([measured(more=runs)])
    assert by_product(job("busy"), jobs("middle", "light"), CARD) == pytest.approx(product)


def _each_first(names: tuple[str, str, str]) -> list[tuple[str, str, str]]:
    a, b, c = names
    return [(a, b, c), (b, a, c), (c, a, b)]


def test_words_tell_what_a_rate_stands_on():
    table = InterferenceTable([measured(("busy", "idle"))])
    assert "(measured)" in table.explain(job("busy"), [job("light")], CARD)
    assert "beside others" in table.explain(job("busy"), [job("idle")], CARD)
    assert "use alone" in table.explain(job("new", Profile(0.5)), [job("idle")], CARD)
    assert "default" in table.explain(job("new"), [job("idle")], CARD)
    assert "full speed" in table.explain(job("busy"), [], CARD)
    assert "odds" in table.explain(job("busy"), jobs("light", "middle"), CARD)
    table.learn(job("busy"), [job("light")], CARD, 0.5, 7200)
    assert "2.0 h of running jobs" in table.explain(job("busy"), [job("light")], CARD)


def test_learning_moves_the_rate_and_outlives_a_dump():
    table = InterferenceTable([measured(("busy", "idle"))])
    before = table(job("busy"), [job("idle")], CARD)
    for _ in range(100):
        table.learn(job("busy"), [job("idle")], CARD, 0.6, 3600)
    assert table(job("busy"), [job("idle")], CARD) == pytest.approx(0.6, rel=0.03)
    again = InterferenceTable([measured(("busy", "idle"))])
    assert again(job("busy"), [job("idle")], CARD) == pytest.approx(before)
    again.load(json.loads(json.dumps(table.dump())))
    assert again(job("busy"), [job("idle")], CARD) == table(job("busy"), [job("idle")], CARD)
    with pytest.raises(Invalid):
        again.load({"format": 0})
    assert again.dump() == table.dump()


def test_several_neighbours_teach_too_also_two_of_one_kind():
    table = InterferenceTable([measured(("busy", "idle"))])
    for _ in range(200):
        table.learn(job("busy"), jobs("idle", "idle"), CARD, 0.5, 3600)
    assert table(job("busy"), jobs("idle", "idle"), CARD) == pytest.approx(0.5, rel=0.05)


@given(
    st.lists(st.floats(1e-3, 100), min_size=1, max_size=20), st.lists(st.sampled_from(NAMES), min_size=1, max_size=3)
)
def test_lies_spoil_measured_pairs_by_little(told, others):
    table = InterferenceTable([measured(memory_gib=None)])
    clean = {(own, other): table(job(own), [job(other)], CARD) for own in NAMES for other in NAMES}
    for ratio in told:
        table.learn(job("busy"), jobs(*others), CARD, ratio, 1e5)
    for (own, other), rate in clean.items():
        assert 1 / 1.26 < table(job(own), [job(other)], CARD) / rate < 1.26


def test_nothing_is_learnt_of_jobs_without_a_name_or_that_cannot_share():
    table = InterferenceTable([measured()])
    table.learn(job(), [job("busy")], CARD, 0.5, 100)
    table.learn(job("busy"), [job()], CARD, 0.5, 100)
    table.learn(job("busy"), [], CARD, 0.5, 100)
    assert table.dump()["pairs"] == []


def test_series_of_one_setting_are_one_table_and_newer_figures_count():
    pairs = replace(measured(at_us=1), co_runs=(pair("busy", "idle", 0.1, 0.2), pair("busy", "light", 0.3, 0.4)))
    later = replace(measured(at_us=2), co_runs=(pair("idle", "busy", 0.5, 0.6),))
    table = InterferenceTable([later, pairs])
    assert table(job("busy"), [job("idle")], CARD) == pytest.approx(0.6)
    assert table(job("busy"), [job("light")], CARD) == pytest.approx(0.3)


def test_figures_of_the_whole_card_count_before_those_of_a_part():
    whole = replace(measured(at_us=1, memory_gib=None), co_runs=(pair("busy", "idle", 0.1, 0.2),))
    part = replace(measured(at_us=2), co_runs=(pair("busy", "idle", 0.5, 0.6),))
    assert InterferenceTable([whole, part])(job("busy"), [job("idle")], CARD) == pytest.approx(0.1)


def test_three_measured_not_to_fit_do_not_nor_with_a_fourth():
    out = CoRun(("busy", "idle", "idle"), (1000,) * 3, out_of_memory=(False, True, False))
    table = InterferenceTable([measured(more=(out,), memory_gib=None)])
    assert table(job("idle"), jobs("busy", "idle"), CARD) == 0.0
    assert table(job("idle"), jobs("busy", "idle", "light"), CARD) == 0.0
    assert table(job("idle"), jobs("busy", "light"), CARD) > 0.0
    assert "do not fit" in table.explain(job("idle"), jobs("busy", "idle"), CARD)
