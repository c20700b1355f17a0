"""Tests for the combined predictor, which weights its sources and calibrates its quantiles."""

import random

import numpy as np
import pytest
from hypothesis import given, settings

from gpusquad import registry
from gpusquad.model.errors import Invalid
from gpusquad.model.job import OfflineEstimate
from gpusquad.predict import combined as module
from gpusquad.predict.combined import CombinedPredictor
from tests.predict.past_runs import (
    HOUR,
    S,
    arbitrary_jobs,
    assert_valid,
    feed_events,
    job,
    past_run,
    predictor_events,
    reloaded,
    trained_on,
)


def job_with_estimate(run_s: float, **rest):
    return job(expected=OfflineEstimate(run_us=round(run_s * S)), **rest)


@settings(max_examples=60)
@given(predictor_events, arbitrary_jobs())
def test_predictions_are_valid_after_any_events(events, new_job):
    combined = CombinedPredictor()
    feed_events(combined, events)
    assert_valid(combined.predict(new_job))


# -- little history --------------------------------------------------------------------------------------------------


def test_prediction_uses_the_offline_or_user_estimate_before_the_first_run():
    combined = CombinedPredictor()
    prediction = combined.predict(job_with_estimate(600, estimate_s=9000))
    assert prediction.source == "analytical"
    assert prediction.at(0.5) == pytest.approx(600 * S, rel=0.2)
    assert (combined.predict(job(estimate_s=50)).source, combined.predict(job()).source) == ("user", "prior")


def test_cut_runs_of_other_tenants_do_not_stretch_an_estimate():
    combined = CombinedPredictor()
    for _ in range(60):
        other = job("x", tenant="other", estimate_s=1)
        combined.predict(other)
        combined.learn(past_run(other, 5000, "cancelled"))
    assert combined.predict(job(tenant="mine", estimate_s=600)).at(0.99) == 600 * S
    trained_on(combined, [500] * 10, tenant="mine", estimate_s=600)
    prediction = combined.predict(job(tenant="mine", estimate_s=600))
    assert prediction.source == "history"
    assert prediction.at(0.95) < 1200 * S


@pytest.mark.parametrize("how", ["cancelled", "preempted", "lost", "timed_out"])
def test_cut_runs_do_not_end_the_time_in_which_an_estimate_counts_in_full(how):
    """They are no ends, and one short run says little of a job of ten minutes."""
    combined = CombinedPredictor()
    trained_on(combined, [120], estimate_s=600)
    for _ in range(32):
        combined.predict(job(estimate_s=600))
        combined.learn(past_run(job(estimate_s=600), 5, how))
    prediction = combined.predict(job(estimate_s=600))
    assert (prediction.source, prediction.at(0.1)) == ("user", 600 * S)
    trained_on(combined, [120] * 9, estimate_s=600)
    assert combined.predict(job(estimate_s=600)).source == "history"


def test_own_cut_runs_do_not_make_days_of_an_hour():
    combined = CombinedPredictor()
    for _ in range(30):
        new_job = job(estimate_s=3600)
        combined.predict(new_job)
        combined.learn(past_run(new_job, 200, "cancelled"))
    assert combined.predict(job(estimate_s=3600)).at(0.95) < 6 * HOUR


def test_exceeded_estimate_makes_the_next_ones_of_the_whole_tenant_count_less():
    combined = CombinedPredictor()
    liar = job("first", tenant="t", estimate_s=300)
    combined.predict(liar)
    combined.learn(past_run(liar, 1200))
    for user in ("first", "second"):
        prediction = combined.predict(job(user, tenant="t", estimate_s=100))
        assert (prediction.source, prediction.at(0.5), prediction.at(0.9)) == ("user", 100 * S, 400 * S)
    assert combined.predict(job(tenant="honest", estimate_s=100)).at(0.99) == 100 * S


def test_estimates_that_are_kept_count_in_full_again():
    combined = trained_on(CombinedPredictor(), [1200], tenant="t", estimate_s=300)
    before = combined.predict(job(tenant="t", estimate_s=100)).at(0.9)
    trained_on(combined, [90] * 8, tenant="t", estimate_s=100)
    assert combined.predict(job(tenant="t", estimate_s=100)).at(0.9) < before


def test_confidence_is_no_higher_than_the_rate_of_predictions_that_were_about_right():
    rng = random.Random(2)
    steady = trained_on(CombinedPredictor(), [100] * 60)
    erratic = trained_on(CombinedPredictor(), [10 ** rng.uniform(0, 5) for _ in range(60)])
    assert steady.predict(job()).confidence > 0.9
    assert erratic.predict(job()).confidence < 0.6


# -- weights of the sources ------------------------------------------------------------------------------------------


def teach(combined: CombinedPredictor, tenant: str, estimate_s: float, run_s: float, runs: int = 40) -> None:
    for _ in range(runs):
        new_job = job_with_estimate(estimate_s, tenant=tenant)
        combined.predict(new_job)
        combined.learn(past_run(new_job, run_s))


def test_more_accurate_source_gets_the_weight_for_each_tenant():
    combined = CombinedPredictor()
    rng = random.Random(1)
    for _ in range(40):  # the estimates of this tenant are exact, and its run times vary
        run_s = 10 ** rng.uniform(1, 4.5)
        teach(combined, "knows", run_s, run_s, 1)
        teach(combined, "boasts", 20, 3000, 1)
    exact_weights, wrong_weights = (
        dict(zip("ha", combined.weights(t, ["history", "analytical"]), strict=True)) for t in ("knows", "boasts")
    )
    assert exact_weights["a"] > 0.95
    assert wrong_weights["h"] > 0.95
    exact, wrong = (
        combined.predict(job_with_estimate(20, tenant="knows")),
        combined.predict(job_with_estimate(20, tenant="boasts")),
    )
    assert (exact.source, wrong.source) == ("analytical", "history")
    assert exact.at(0.5) < 60 * S
    assert wrong.at(0.5) > 1000 * S


def test_weights_sum_to_one_and_are_equal_at_first():
    combined = CombinedPredictor()
    assert combined.weights("new", ["history", "analytical"]) == [0.5, 0.5]
    teach(combined, "t", 20, 3000)
    assert sum(combined.weights("t", ["history", "analytical"])) == pytest.approx(1.0)


# -- calibration -----------------------------------------------------------------------------------------------------


def test_predicted_quantiles_are_calibrated_when_run_times_grow():
    """The runs get longer over time, so predictions from history alone would be too short."""
    combined, rng = CombinedPredictor(rate=0.02), random.Random(3)
    covered = []
    for index in range(900):
        new_job = job(f"u{index % 3}", estimate_s=10**6)
        prediction = combined.predict(new_job)
        run_s = 2 ** rng.gauss(7 + index / 300, 1.5)
        covered.append([run_s * S <= prediction.at(level) for level in (0.5, 0.9)])
        combined.learn(past_run(new_job, run_s))
    assert np.mean(covered[300:], axis=0) == pytest.approx([0.5, 0.9], abs=0.05)


def test_cut_runs_do_not_lower_predictions():
    combined = trained_on(CombinedPredictor(rate=0.1), [600] * 40)
    before = combined.predict(job()).values
    for _ in range(10):
        new_job = job()
        combined.predict(new_job)
        combined.learn(past_run(new_job, 1, "cancelled"))
    after = combined.predict(job()).values
    assert all(new >= 0.95 * old for old, new in zip(before, after, strict=True))


# -- storage and bounds ----------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(predictor_events, arbitrary_jobs())
def test_reloaded_predictor_predicts_the_same_after_any_events(events, new_job):
    combined = CombinedPredictor()
    feed_events(combined, [event for event in events if not isinstance(event, tuple)])
    assert reloaded(combined, CombinedPredictor()).predict(new_job) == combined.predict(new_job)


def test_reloaded_predictor_continues_to_predict_the_same():
    combined = trained_on(CombinedPredictor(), [20, 600, 20, 7200] * 40)
    teach(combined, "t", 20, 3000)
    restored = reloaded(combined, CombinedPredictor())
    for run_s in (30, 4000, 600):
        new_job = job_with_estimate(100)
        assert combined.predict(new_job) == restored.predict(new_job)
        combined.learn(past_run(new_job, run_s))
        restored.learn(past_run(new_job, run_s))


def test_state_with_other_levels_is_not_loaded():
    dumped = CombinedPredictor().dump()
    with pytest.raises(ValueError, match="levels"):
        CombinedPredictor().load(dumped | {"levels": [0.5]})


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_MAX_OPEN", 5)
    monkeypatch.setattr(module, "_MAX_TENANTS", 2)
    combined = CombinedPredictor()
    for number in range(6):
        teach(combined, f"t{number}", 20, 30, 2)
    for _ in range(20):
        combined.predict(job())
    assert len(combined._open) == 5
    assert list(combined._scores) == ["t4", "t5"]


def test_open_prediction_of_a_single_source_stores_no_distribution():
    """Hundreds of thousands of jobs may be pending, so an open prediction must stay small."""
    combined = trained_on(CombinedPredictor(), [60])
    combined.predict(job())
    assert [prediction.parts for prediction in combined._open.values()] == [()]


@pytest.mark.parametrize("bad", ["rate=-1", "rate=0.6", "rate=nan", "honest=perhaps"])
def test_bad_parameters_are_refused(bad: str):
    with pytest.raises(Invalid):
        registry.create("predictor", f"combined:{bad}")
