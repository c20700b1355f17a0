"""Tests of confidence intervals from a bootstrap over weeks."""

import numpy as np
import pytest

from bench._weeks import WEEK_S, mean_interval, ratio_interval

RNG = np.random.default_rng(1)
SUBMITTED_S = np.sort(RNG.random(3000)) * 30 * WEEK_S + 12345
VALUES = RNG.lognormal(1, 1, 3000)


def test_interval_contains_the_mean_and_is_deterministic():
    low, high = mean_interval(SUBMITTED_S, VALUES)
    assert low < VALUES.mean() < high
    assert (low, high) == mean_interval(SUBMITTED_S, VALUES)


def test_interval_of_independent_jobs_has_the_usual_width():
    low, high = mean_interval(SUBMITTED_S, VALUES)
    usual = 2 * 1.96 * VALUES.std() / np.sqrt(len(VALUES))
    assert 0.6 * usual < high - low < 1.6 * usual


def test_interval_is_wider_when_weeks_differ():
    by_week = VALUES * np.where((SUBMITTED_S // WEEK_S) % 2 == 0, 5.0, 1.0)
    jobs_low, jobs_high = mean_interval(SUBMITTED_S, RNG.permutation(by_week))
    low, high = mean_interval(SUBMITTED_S, by_week)
    assert high - low > 1.5 * (jobs_high - jobs_low)


def test_ratio_is_paired_by_week():
    """Both use the same weeks, so a constant ratio has an interval of width zero."""
    assert ratio_interval(SUBMITTED_S, VALUES / 2, VALUES) == pytest.approx((0.5, 0.5))


def test_weeks_without_jobs_are_not_drawn():
    gap = np.array([0.0, 10.0, 50 * WEEK_S])
    low, high = mean_interval(gap, np.array([1.0, 1.0, 4.0]))
    assert (low, high) == pytest.approx((1.0, 4.0))
