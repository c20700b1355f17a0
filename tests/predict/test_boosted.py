"""Boosted trees for quantiles: grown now and then, asked at once."""

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from gpusquad import registry
from gpusquad.model.errors import Invalid
from gpusquad.model.prediction import LEVELS
from gpusquad.predict import boosted as module
from gpusquad.predict._owner_features import OwnerHistories, log_s
from gpusquad.predict._trees import flat
from gpusquad.predict.boosted import BoostedTrees
from tests.predict.past_runs import S, happenings, is_sound, job, learned, live_through, ran, strange_jobs

ensemble = pytest.importorskip("sklearn.ensemble", reason="the predictor is an extra: gpusquad[predict]")


def a_life(boosted: BoostedTrees, jobs: int, seed: int = 0) -> np.ndarray:
    """Two owners whose run time follows from their estimate, one by a half and one by a tenth, give or take; whether
    each run was over by the middle and by the ninth tenth foretold, where trees foretold it."""
    dice, inside = random.Random(seed), []
    for turn in range(jobs):
        user, part = dice.choice([("half", 0.5), ("tenth", 0.1)])
        estimate_s = dice.choice([600, 3600, 36_000])
        one = job(user, estimate_s=estimate_s, at_s=60 * turn)
        said = boosted.predict(one)
        run_s = estimate_s * part * 2 ** dice.gauss(0, 0.5)
        if said.source == "boosted":
            inside.append([run_s * S <= said.at(level) for level in (0.5, 0.9)])
        boosted.learn(ran(one, run_s, ended_s=60 * turn + 30))
        if boosted.is_due():
            boosted.train()
    return np.array(inside)


@pytest.fixture(scope="module")
def taught() -> tuple[BoostedTrees, np.ndarray]:
    boosted = BoostedTrees(trees=60)
    return boosted, a_life(boosted, 1300)


def test_flat_trees_say_what_the_library_says():
    dice = np.random.default_rng(0)
    rows = dice.normal(size=(400, 5))
    models = [
        ensemble.HistGradientBoostingRegressor(loss="quantile", quantile=q, max_iter=12, early_stopping=False).fit(
            rows, rows[:, 0] + dice.normal(size=400)
        )
        for q in (0.2, 0.5, 0.9)
    ]
    trees = flat(models)
    by_library = np.array([model.predict(rows[:50]) for model in models]).T
    assert np.array([trees.answers(row) for row in rows[:50]]) == pytest.approx(by_library)


def test_trees_tell_owners_and_estimates_apart(taught):
    boosted, _ = taught
    for user, part in (("half", 0.5), ("tenth", 0.1)):
        for estimate_s in (600, 3600, 36_000):
            said = boosted.predict(job(user, estimate_s=estimate_s, at_s=60 * 1300))
            assert said.source == "boosted"
            assert said.at(0.5) == pytest.approx(part * estimate_s * S, rel=0.5)


def test_what_is_called_nine_of_ten_is(taught):
    _, inside = taught
    assert len(inside) == 800
    assert inside.mean(axis=0) == pytest.approx([0.5, 0.9], abs=0.07)


@settings(max_examples=40)
@given(happenings, strange_jobs())
def test_nothing_that_can_happen_makes_it_fail(taught, things, asked):
    for boosted in (BoostedTrees(), taught[0]):
        live_through(boosted, things)
        is_sound(boosted.predict(asked))


def test_before_there_are_trees_the_recent_runs_then_the_estimate_then_nothing():
    boosted = BoostedTrees()
    assert boosted.predict(job()).source == "none"
    assert boosted.predict(job(estimate_s=50)).source == "user"
    learned(boosted, [10, 30])
    assert (boosted.predict(job()).at(0.5), boosted.predict(job()).source) == (20 * S, "history")


def test_when_it_is_due(monkeypatch):
    grown = []
    monkeypatch.setattr(module, "_grow", lambda rows, lengths, trees: grown.append(len(rows)))
    boosted = BoostedTrees(keep=1000)
    due = []
    for turn in range(2000):
        boosted.learn(ran(job(), 5))
        if boosted.is_due():
            due.append(turn + 1)
            boosted.train()
    assert due[:2] == [500, 1000]
    assert all(later - sooner == 500 for sooner, later in pairwise(due))
    assert max(grown) == 1000


def test_cut_runs_are_not_learned_as_short_ones(taught):
    boosted, _ = taught
    one = job("half", estimate_s=3600, at_s=90_000)
    said = boosted.predict(one)
    boosted.learn(ran(one, 1, "preempted"))
    assert boosted._rows[-1][1] == pytest.approx(log_s(said.at(0.5)))
    before = len(boosted._rows)
    boosted.learn(ran(job("half", estimate_s=3600), 1, "preempted"))
    assert len(boosted._rows) == before, "nobody foretold it, so nobody knows how long it would have run"


def test_limits_and_kept_estimates_are_the_most():
    boosted = BoostedTrees(trees=2)
    for _ in range(500):
        boosted.learn(ran(job(estimate_s=3600), 3000))
    boosted.train()
    assert boosted.predict(job(estimate_s=60)).values[-1] == 60 * S
    assert boosted.predict(job(limit_us=7 * S)).values[-1] == 7 * S


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_MAX_OPEN", 5)
    boosted = BoostedTrees()
    boosted._owners = OwnerHistories(most=6)
    for number in range(20):
        boosted.predict(job(f"u{number}"))
        boosted.learn(ran(job(f"u{number}"), 5))
    assert len(boosted._open) == 5
    assert len(boosted._owners._known) == 6


def test_it_is_learned_anew_after_a_restart():
    with pytest.raises(NotImplementedError):
        BoostedTrees().dump()


def test_without_the_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(Invalid, match="scikit-learn"):
        registry.create("predictor", "boosted")


@pytest.mark.parametrize("bad", ["keep=10", "trees=0", "rate=2", "rate=nan"])
def test_bad_parameters(bad: str):
    with pytest.raises(Invalid):
        registry.create("predictor", f"boosted:{bad}")


# -- what the trees are told -----------------------------------------------------------------------------------------


def test_rows_know_what_the_owner_did():
    habits = OwnerHistories()
    empty = habits.row(job(at_s=1000))
    habits.came(job(at_s=900))
    habits.ended(job(), 64 * S, 950 * S)
    one = job()
    habits.begins(one, 960 * S)
    row = habits.row(job(at_s=1000))
    assert row.shape == empty.shape
    assert log_s(64 * S) in row.tolist()
    assert not (row == empty).all()
    habits.stops(one)
    assert habits.row(job(at_s=1000))[-2] == 0
    assert (habits.row(job("bo", at_s=1000)) == empty).all()


@given(strange_jobs())
def test_rows_are_numbers(one):
    row = OwnerHistories().row(one)
    assert np.isfinite(row).all()


def test_levels_beyond_those_grown_for_go_on_along_the_odds():
    values = module._values(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array(LEVELS), 1 << 60)
    assert list(values) == sorted(values)
    assert values[0] < np.exp(1.0) * S
    assert values[-1] > np.exp(5.0) * S
