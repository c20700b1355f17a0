"""Tests for the accuracy and calibration of the progress predictor over many synthetic runs."""

import numpy as np
import pytest

from gpusquad.model.prediction import LEVELS, Quantiles
from gpusquad.predict.progress import ProgressPredictor
from tests.predict.progress_runs import US, Run, make_run

FRACTIONS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
RUNS = 120


def prior_of(run: Run, rng: np.random.Generator, spread: float) -> Quantiles:
    """A prior whose error has the same spread as its quantiles."""
    error = rng.normal(0, spread)
    draws = np.quantile(rng.normal(error, spread, 4000), LEVELS)
    return Quantiles(LEVELS, tuple(int(run.ended_s * US * value) for value in np.exp(draws)), "history", 0.8)


def answers(prior_spread: float | None = None) -> np.ndarray:
    """Rows of elapsed time, actual and predicted (P10, P50, P90, naive) remaining time, as fractions of the run."""
    rows = []
    for seed in range(RUNS):
        rng = np.random.default_rng((2026, seed))
        run = make_run(rng)
        prior = None if prior_spread is None else prior_of(run, rng, prior_spread)
        progress, reported = ProgressPredictor(), 0
        for fraction in FRACTIONS:
            now_s = fraction * run.ended_s
            while reported < len(run.reports) and run.reports[reported][0] <= now_s:
                at_s, step = run.reports[reported]
                progress.see(round(at_s * US), step, run.total)
                reported += 1
            answer = progress.remaining(round(now_s * US), prior, 0)
            if answer is not None:
                step = run.reports[reported - 1][1]
                naive_s = now_s / step * (run.total - step)
                predicted = [answer.at(level) / US / run.ended_s for level in (0.1, 0.5, 0.9)]
                rows.append((fraction, 1 - fraction, *predicted, naive_s / run.ended_s))
    return np.array(rows)


@pytest.fixture(scope="module")
def by_steps() -> np.ndarray:
    return answers()


def covered(rows: np.ndarray) -> float:
    return float(np.mean((rows[:, 2] <= rows[:, 1]) & (rows[:, 1] <= rows[:, 4])))


def errors(rows: np.ndarray, column: int) -> np.ndarray:
    return np.abs(rows[:, column] - rows[:, 1])


def test_eighty_percent_of_runs_end_between_p10_and_p90(by_steps):
    assert 0.74 <= covered(by_steps) <= 0.88
    late = by_steps[by_steps[:, 0] >= 0.25]
    assert 0.74 <= covered(late) <= 0.9


def test_prediction_is_more_accurate_than_the_mean_step_time(by_steps):
    ours, naive = errors(by_steps, 3), errors(by_steps, 5)
    assert np.median(ours) < 0.75 * np.median(naive)
    assert np.mean(ours) < 0.75 * np.mean(naive)


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_prediction_is_more_accurate_at_every_fraction_of_the_run(by_steps, fraction):
    rows = by_steps[by_steps[:, 0] == fraction]
    assert np.mean(errors(rows, 3)) < np.mean(errors(rows, 5))


def test_good_prior_improves_early_predictions(by_steps):
    with_prior = answers(0.25)
    early, early_with = by_steps[by_steps[:, 0] <= 0.1], with_prior[with_prior[:, 0] <= 0.1]
    assert np.mean(errors(early_with, 3)) < 0.8 * np.mean(errors(early, 3))
    assert covered(with_prior) >= 0.76


def test_prediction_is_nearly_exact_for_plain_runs():
    for seed in range(20):
        run = make_run(np.random.default_rng((7, seed)), plain=True)
        half = [report for report in run.reports if report[1] <= run.total // 2]
        progress = ProgressPredictor()
        for at_s, step in half:
            progress.see(round(at_s * US), step, run.total)
        if len(half) < 3:
            continue
        answer = progress.remaining(round(half[-1][0] * US), None, 0)
        assert answer is not None
        assert answer.at(0.5) / US == pytest.approx(run.ended_s - half[-1][0], rel=0.05, abs=4)
