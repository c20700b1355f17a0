"""Tests for the prediction of a job's peak memory on a card."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.job import Profile
from gpusquad.predict.memory import PeakMemoryPredictor, peak_quantiles
from tests.predict.similar_jobs import GIB, job, offline_estimate, past_run, run_summary

peaks = st.integers(2**20, 2**40)


def trained_on(*gibs: float, how="succeeded", gpus: int = 1) -> PeakMemoryPredictor:
    predictor = PeakMemoryPredictor()
    for number, gib in enumerate(gibs):
        predictor.learn(past_run(job(f"resnet50-run{number}", gpus, number), peak_gib=gib, how=how, ended_us=number))
    return predictor


def test_no_prediction_without_measured_peaks():
    assert PeakMemoryPredictor().predict(job()) is None
    predictor = PeakMemoryPredictor()
    predictor.learn(past_run(job()))  # a run whose peak was not measured
    assert predictor.predict(job()) is None


def test_peak_is_predicted_from_past_runs_of_the_same_kind():
    found = trained_on(10, 10.1, 9.9, 10).peak(job("resnet50-run99"))
    assert found is not None
    assert found.bytes.source == "history"
    assert found.bytes.at(0.5) == pytest.approx(10 * GIB, rel=0.02)
    assert 10.2 * GIB < found.bytes.at(0.95) < 13 * GIB
    assert len(found.runs) == 4


def test_single_run_gives_less_confidence_than_many():
    single, many = trained_on(10).predict(job()), trained_on(*[10] * 15).predict(job())
    assert single is not None
    assert many is not None
    assert single.confidence < many.confidence
    assert single.at(0.9) > many.at(0.9)


def test_single_outlier_changes_the_prediction_little():
    plain, with_outlier = trained_on(*[10] * 9).predict(job()), trained_on(*[10] * 9, 75).predict(job())
    assert plain is not None
    assert with_outlier is not None
    assert with_outlier.at(0.9) < 1.25 * plain.at(0.9)


def test_two_frequent_peaks_are_both_covered():
    found = trained_on(*[10, 40] * 5).predict(job())
    assert found is not None
    assert found.at(0.9) >= 40 * GIB


@pytest.mark.parametrize("how", ["failed", "timed_out", "cancelled", "preempted", "lost"])
def test_cut_run_with_a_lower_peak_is_ignored(how):
    predictor = trained_on(10, 10, 10)
    before = predictor.predict(job())
    for number in range(10):
        predictor.learn(past_run(job(number=100 + number), peak_gib=0.5, how=how, ended_us=100 + number))
    after = predictor.predict(job())
    assert before is not None
    assert after is not None
    assert after.values == before.values


def test_cut_run_with_a_higher_peak_raises_the_prediction():
    predictor = trained_on(10, 10, 10)
    before = predictor.predict(job())
    for number in range(3):
        predictor.learn(past_run(job(number=100 + number), peak_gib=14, how="timed_out", ended_us=100 + number))
    after = predictor.predict(job())
    assert before is not None
    assert after is not None
    assert after.at(0.9) > 13 * GIB > before.at(0.9)


def test_cut_runs_alone_give_a_prediction_without_confidence():
    found = trained_on(6, 7, how="cancelled").predict(job())
    assert found is not None
    assert (found.confidence, found.at(0.9) > 7 * GIB) == (0, True)


def test_peak_is_predicted_separately_for_each_number_of_gpus():
    predictor = trained_on(60, 60, gpus=2)
    for number in range(2):
        predictor.learn(past_run(job("resnet50", 4, number), peak_gib=32, ended_us=10 + number))
    found = [predictor.predict(job(gpus=gpus)) for gpus in (2, 4)]
    assert [round(prediction.at(0.5) / GIB) for prediction in found if prediction] == [60, 32]


def test_offline_estimate_is_used_until_there_are_enough_runs():
    predictor = PeakMemoryPredictor()
    with_estimate = job(expected=offline_estimate(memory_bytes=20 * GIB))
    found = predictor.predict(with_estimate)
    assert found is not None
    assert (found.source, found.at(0.5)) == ("analytical", 20 * GIB)
    predictor.learn(past_run(job(number=1), peak_gib=9))
    assert predictor.peak(with_estimate).bytes.source == "analytical"  # type: ignore[union-attr]
    predictor.learn(past_run(job(number=2), peak_gib=9))
    assert predictor.peak(with_estimate).bytes.source == "history"  # type: ignore[union-attr]


@pytest.mark.parametrize("how", ["succeeded", "failed"])
def test_offline_estimate_that_a_run_exceeded_does_not_count(how):
    predictor = PeakMemoryPredictor()
    predictor.learn(past_run(job(), peak_gib=23.5, how=how))
    found = predictor.peak(job(number=1, expected=offline_estimate(memory_bytes=10 * GIB)))
    assert found is not None
    assert found.bytes.source == "history"
    assert found.bytes.at(0.95) > 23.5 * GIB
    other = job("vit", user="bob", command="train.py", expected=offline_estimate(memory_bytes=10 * GIB))
    assert predictor.peak(other).bytes.source == "analytical"  # type: ignore[union-attr]


def test_needed_memory_of_a_killed_attempt_survives_a_later_attempt_that_was_cut():
    predictor = PeakMemoryPredictor()
    predictor.learn(past_run(job(), how="failed", needed_memory_bytes=GIB, ended_us=1))
    predictor.learn(past_run(job(), how="cancelled", ended_us=2))
    ((_, seen), *_) = predictor.circles(job())
    assert [run.needed_bytes for run in seen] == [GIB]


def test_profile_is_used_without_runs_and_offline_estimate():
    found = PeakMemoryPredictor().predict(job(profile=Profile(memory_bytes=6 * GIB)))
    assert found is not None
    assert (found.source, found.at(0.9)) == ("user", 6 * GIB)


runs = st.builds(
    lambda gpus, peak, how, number: run_summary(gpus, how=how, number=number, peak_bytes=peak),
    st.integers(1, 8), st.none() | peaks, st.sampled_from(["succeeded", "failed", "timed_out", "lost"]),
    st.integers(0, 99),
)  # fmt: skip


@given(st.lists(runs, max_size=30))
def test_quantiles_ascend_and_stay_near_the_measured_peaks(history):
    found = peak_quantiles(history)
    peaks_seen = [run.peak_bytes for run in history if run.peak_bytes]
    assert (found is None) == (not peaks_seen)
    if found is not None:
        assert list(found.values) == sorted(found.values)
        assert min(peaks_seen) / 2 <= found.at(0.5) <= max(peaks_seen) * 2
        assert 0 <= found.confidence <= 1


@given(st.lists(peaks, min_size=1, max_size=20), peaks)
def test_additional_run_with_the_highest_peak_never_lowers_the_median(values, extra):
    before = peak_quantiles([run_summary(number=n, peak_bytes=value) for n, value in enumerate(values)])
    after = peak_quantiles(
        [run_summary(number=n, peak_bytes=value) for n, value in enumerate([*values, max(*values, extra)])]
    )
    assert before is not None
    assert after is not None
    assert after.at(0.5) >= before.at(0.5) * 0.999
