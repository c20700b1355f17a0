"""Tests for correcting predictions for owners whose runs far exceed them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.predict import _overrun_correction as module
from gpusquad.predict._bins import COUNT, bin_of, quantiles
from gpusquad.predict._overrun_correction import OverrunCorrection
from tests.predict.past_runs import S, assert_valid, job, past_run

DAY = 86400


def mostly_short() -> np.ndarray:
    """A distribution: ten of eleven runs last half a minute, one lasts six hours."""
    part = np.full(COUNT, 1e-6)
    part[bin_of(30 * S)], part[bin_of(6 * 3600 * S)] = 10 / 11, 1 / 11
    return part


def learn_padded_runs(
    correction: OverrunCorrection, long_runs: int, *, user: str = "mal", run_s: float = 6 * 3600, at_s: float = 0
) -> None:
    """Learns ten short runs before each long one, all with a predicted median of half a minute."""
    for _ in range(long_runs):
        for _ in range(10):
            correction.learn(past_run(job(user), 30, ended_s=at_s), 30 * S)
        correction.learn(past_run(job(user), run_s, ended_s=at_s), 30 * S)


def median_s(correction: OverrunCorrection, user: str = "mal") -> float:
    corrected = correction.corrected(job(user), mostly_short())
    return quantiles(mostly_short() if corrected is None else corrected, "x", 0).at(0.5) / S


def test_prediction_follows_the_card_time_after_padding_with_short_runs():
    correction = OverrunCorrection()
    learn_padded_runs(correction, 5)
    assert median_s(correction) == pytest.approx(6 * 3600, rel=0.2)


def test_few_overruns_cause_no_correction():
    correction = OverrunCorrection()
    learn_padded_runs(correction, module._IGNORED_OVERRUNS)
    assert correction.corrected(job("mal"), mostly_short()) is None


def test_users_of_other_tenants_are_not_corrected():
    correction = OverrunCorrection()
    learn_padded_runs(correction, 9)
    assert correction.corrected(job("ana", tenant="other"), mostly_short()) is None


def test_new_user_of_the_same_tenant_is_corrected():
    correction = OverrunCorrection()
    learn_padded_runs(correction, 9)
    assert correction.corrected(job("new"), mostly_short()) is not None


@pytest.mark.parametrize("spread", [0.5, 1.0, 1.3])
def test_varying_run_times_cause_no_correction(spread: float):
    """The run times vary by large factors around an accurate median."""
    correction, rng = OverrunCorrection(), np.random.default_rng(1)
    for run_s in 600 * np.exp(rng.normal(0, spread, 400)):
        correction.learn(past_run(job(), run_s), 600 * S)
        assert correction.corrected(job(), mostly_short()) is None


def test_runs_shorter_than_predicted_do_not_offset_overruns():
    """Otherwise a few jobs that are predicted to be long and end at once would offset the overruns."""
    correction = OverrunCorrection()
    learn_padded_runs(correction, 5)
    for _ in range(50):
        correction.learn(past_run(job("mal"), 1), 9 * 3600 * S)
    assert median_s(correction) > 3600


def test_correction_ends_after_accurate_predictions_or_with_time():
    correction = OverrunCorrection()
    learn_padded_runs(correction, 5)
    for _ in range(5):
        correction.learn(past_run(job("mal"), 6 * 3600), 6 * 3600 * S)
    assert correction.corrected(job("mal"), mostly_short()) is None
    learn_padded_runs(correction, 5, user="eve")
    correction.learn(past_run(job("eve"), 3600, ended_s=150 * DAY), 3600 * S)
    assert correction.corrected(job("eve", tenant="default"), mostly_short()) is None


@pytest.mark.parametrize("how", ["cancelled", "preempted", "lost"])
def test_runs_cut_early_cause_no_correction(how):
    correction = OverrunCorrection()
    for _ in range(30):
        correction.learn(past_run(job(), 5, how), 600 * S)
    assert correction.corrected(job(), mostly_short()) is None


runs = st.lists(
    st.tuples(st.integers(0, 1 << 60), st.integers(0, 1 << 60), st.integers(0, 1 << 60), st.sampled_from("ab")),
    max_size=12,
)


@given(runs)
def test_corrected_distribution_is_valid_and_never_shorter(history):
    correction = OverrunCorrection()
    for run_us, median_us, ended_us, user in history:
        correction.learn(past_run(job(user), run_us / S, ended_s=ended_us / S), median_us)
    for user in "ab":
        corrected = correction.corrected(job(user), mostly_short())
        if corrected is not None:
            before, after = (quantiles(part, "x", 0) for part in (mostly_short(), corrected))
            assert_valid(after)
            assert all(new >= old for old, new in zip(before.values, after.values, strict=True))


@given(runs)
def test_correction_round_trips_through_json(history):
    correction, restored = OverrunCorrection(), OverrunCorrection()
    for run_us, median_us, ended_us, user in history:
        correction.learn(past_run(job(user), run_us / S, ended_s=ended_us / S), median_us)
    restored.load(json.loads(json.dumps(correction.dump(), allow_nan=False)))
    for user in "abc":
        before, after = (each.corrected(job(user), mostly_short()) for each in (correction, restored))
        assert (before is None) == (after is None)
        assert before is None or (before == after).all()


def test_number_of_owners_is_bounded_and_invalid_state_is_not_loaded():
    correction = OverrunCorrection(most=4)
    for number in range(9):
        correction.learn(past_run(job(f"u{number}", tenant=f"t{number}"), 5), S)
    assert len(correction._sums) == 4
    with pytest.raises((ValueError, TypeError)):
        correction.load([[["t"], float("nan"), 0, 0, 0, []]])
