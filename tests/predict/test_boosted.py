"""Tests for the predictor with boosted quantile trees."""

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
from tests.predict.past_runs import (
    S,
    arbitrary_jobs,
    assert_valid,
    feed_events,
    job,
    past_run,
    predictor_events,
    trained_on,
)

ensemble = pytest.importorskip("sklearn.ensemble", reason="the predictor is an extra: gpusquad[predict]")


def simulate_jobs(boosted: BoostedTrees, jobs: int, seed: int = 0) -> np.ndarray:
    """Simulates jobs of two owners whose run times are about half and a tenth of their estimates.

    For each run predicted by trees: whether it ended by the predicted P50 and by the predicted P90.
    """
    rng, covered = random.Random(seed), []
    for index in range(jobs):
        user, ratio = rng.choice([("half", 0.5), ("tenth", 0.1)])
        estimate_s = rng.choice([600, 3600, 36_000])
        new_job = job(user, estimate_s=estimate_s, at_s=60 * index)
        prediction = boosted.predict(new_job)
        run_s = estimate_s * ratio * 2 ** rng.gauss(0, 0.5)
        if prediction.source == "boosted":
            covered.append([run_s * S <= prediction.at(level) for level in (0.5, 0.9)])
        boosted.learn(past_run(new_job, run_s, ended_s=60 * index + 30))
        if boosted.is_due():
            boosted.train()
    return np.array(covered)


@pytest.fixture(scope="module")
def trained() -> tuple[BoostedTrees, np.ndarray]:
    boosted = BoostedTrees(trees=60)
    return boosted, simulate_jobs(boosted, 1300)


def test_flat_trees_predict_the_same_as_scikit_learn():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 5))
    models = [
        ensemble.HistGradientBoostingRegressor(loss="quantile", quantile=q, max_iter=12, early_stopping=False).fit(
            rows, rows[:, 0] + rng.normal(size=400)
        )
        for q in (0.2, 0.5, 0.9)
    ]
    trees = flat(models)
    by_library = np.array([model.predict(rows[:50]) for model in models]).T
    assert np.array([trees.answers(row) for row in rows[:50]]) == pytest.approx(by_library)


def test_trees_distinguish_owners_and_estimates(trained):
    boosted, _ = trained
    for user, ratio in (("half", 0.5), ("tenth", 0.1)):
        for estimate_s in (600, 3600, 36_000):
            prediction = boosted.predict(job(user, estimate_s=estimate_s, at_s=60 * 1300))
            assert prediction.source == "boosted"
            assert prediction.at(0.5) == pytest.approx(ratio * estimate_s * S, rel=0.5)


def test_predicted_quantiles_are_calibrated(trained):
    _, covered = trained
    assert len(covered) == 800
    assert covered.mean(axis=0) == pytest.approx([0.5, 0.9], abs=0.07)


@settings(max_examples=40)
@given(predictor_events, arbitrary_jobs())
def test_predictions_are_valid_after_any_events(trained, events, new_job):
    for boosted in (BoostedTrees(), trained[0]):
        feed_events(boosted, events)
        assert_valid(boosted.predict(new_job))


def test_prediction_uses_recent_runs_or_the_estimate_before_training():
    boosted = BoostedTrees()
    assert boosted.predict(job()).source == "none"
    assert boosted.predict(job(estimate_s=50)).source == "user"
    trained_on(boosted, [10, 30])
    assert (boosted.predict(job()).at(0.5), boosted.predict(job()).source) == (20 * S, "history")


def test_training_is_due_after_every_500_runs(monkeypatch):
    trained_rows = []
    monkeypatch.setattr(module, "_grow", lambda rows, lengths, trees: trained_rows.append(len(rows)))
    boosted = BoostedTrees(keep=1000)
    due = []
    for index in range(2000):
        boosted.learn(past_run(job(), 5))
        if boosted.is_due():
            due.append(index + 1)
            boosted.train()
    assert due[:2] == [500, 1000]
    assert all(later - earlier == 500 for earlier, later in pairwise(due))
    assert max(trained_rows) == 1000


def test_cut_runs_are_not_learned_as_short_runs(trained):
    boosted, _ = trained
    new_job = job("half", estimate_s=3600, at_s=90_000)
    prediction = boosted.predict(new_job)
    boosted.learn(past_run(new_job, 1, "preempted"))
    assert boosted._rows[-1][1] == pytest.approx(log_s(prediction.at(0.5)))
    before = len(boosted._rows)
    boosted.learn(past_run(job("half", estimate_s=3600), 1, "preempted"))
    assert len(boosted._rows) == before, "a cut run without a prediction has no known run time"


def test_prediction_does_not_exceed_the_limit_or_a_reliable_estimate():
    boosted = BoostedTrees(trees=2)
    for _ in range(500):
        boosted.learn(past_run(job(estimate_s=3600), 3000))
    boosted.train()
    assert boosted.predict(job(estimate_s=60)).values[-1] == 60 * S
    assert boosted.predict(job(limit_us=7 * S)).values[-1] == 7 * S


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_MAX_OPEN", 5)
    boosted = BoostedTrees()
    boosted._owners = OwnerHistories(most=6)
    for number in range(20):
        boosted.predict(job(f"u{number}"))
        boosted.learn(past_run(job(f"u{number}"), 5))
    assert len(boosted._open) == 5
    assert len(boosted._owners._known) == 6


def test_dump_is_not_supported():
    with pytest.raises(NotImplementedError):
        BoostedTrees().dump()


def test_missing_scikit_learn_is_reported(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(Invalid, match="scikit-learn"):
        registry.create("predictor", "boosted")


@pytest.mark.parametrize("bad", ["keep=10", "trees=0", "rate=2", "rate=nan"])
def test_bad_parameters_are_refused(bad: str):
    with pytest.raises(Invalid):
        registry.create("predictor", f"boosted:{bad}")


# -- input rows of the trees -----------------------------------------------------------------------------------------


def test_row_reflects_the_owner_history():
    histories = OwnerHistories()
    empty = histories.row(job(at_s=1000))
    histories.came(job(at_s=900))
    histories.ended(job(), 64 * S, 950 * S)
    new_job = job()
    histories.begins(new_job, 960 * S)
    row = histories.row(job(at_s=1000))
    assert row.shape == empty.shape
    assert log_s(64 * S) in row.tolist()
    assert not (row == empty).all()
    histories.stops(new_job)
    assert histories.row(job(at_s=1000))[-2] == 0
    assert (histories.row(job("bo", at_s=1000)) == empty).all()


@given(arbitrary_jobs())
def test_rows_are_finite(new_job):
    row = OwnerHistories().row(new_job)
    assert np.isfinite(row).all()


def test_quantiles_are_extrapolated_beyond_the_trained_levels():
    values = module._values(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array(LEVELS), 1 << 60)
    assert list(values) == sorted(values)
    assert values[0] < np.exp(1.0) * S
    assert values[-1] > np.exp(5.0) * S
