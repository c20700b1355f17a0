"""Intervals from weeks drawn again."""

import numpy as np
import pytest

from bench._weeks import WEEK_S, mean_interval, ratio_interval

DICE = np.random.default_rng(1)
SUBMITTED_S = np.sort(DICE.random(3000)) * 30 * WEEK_S + 12345
VALUES = DICE.lognormal(1, 1, 3000)


def test_it_holds_the_mean_and_is_the_same_each_time():
    low, high = mean_interval(SUBMITTED_S, VALUES)
    assert low < VALUES.mean() < high
    assert (low, high) == mean_interval(SUBMITTED_S, VALUES)


def test_jobs_that_do_not_depend_on_their_week_give_the_usual_width():
    low, high = mean_interval(SUBMITTED_S, VALUES)
    usual = 2 * 1.96 * VALUES.std() / np.sqrt(len(VALUES))
    assert 0.6 * usual < high - low < 1.6 * usual


def test_weeks_that_differ_make_it_wider():
    by_week = VALUES * np.where((SUBMITTED_S // WEEK_S) % 2 == 0, 5.0, 1.0)
    jobs_low, jobs_high = mean_interval(SUBMITTED_S, DICE.permutation(by_week))
    low, high = mean_interval(SUBMITTED_S, by_week)
    assert high - low > 1.5 * (jobs_high - jobs_low)


def test_a_ratio_is_paired():
    """The same weeks for both: what is half as much everywhere is half as much for sure."""
    assert ratio_interval(SUBMITTED_S, VALUES / 2, VALUES) == pytest.approx((0.5, 0.5))


def test_weeks_without_a_job_are_never_drawn():
    gap = np.array([0.0, 10.0, 50 * WEEK_S])
    low, high = mean_interval(gap, np.array([1.0, 1.0, 4.0]))
    assert (low, high) == pytest.approx((1.0, 4.0))
