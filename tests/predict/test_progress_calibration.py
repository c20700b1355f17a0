"""Over many made-up runs: it is closer than what people work out in their head, and as sure as it may be."""

import numpy as np
import pytest

from gpusquad.model.prediction import LEVELS, Quantiles
from gpusquad.predict.progress import ProgressPredictor
from tests.predict.progress_runs import US, Run, make_run

PARTS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
RUNS = 120


def prior_of(run: Run, dice: np.random.Generator, spread: float) -> Quantiles:
    """As wide as it is wrong."""
    off = dice.normal(0, spread)
    draws = np.quantile(dice.normal(off, spread, 4000), LEVELS)
    return Quantiles(LEVELS, tuple(int(run.ended_s * US * value) for value in np.exp(draws)), "history", 0.8)


def answers(prior_spread: float | None = None) -> np.ndarray:
    """Rows of part, truth, P10, middle, P90, by elapsed time: in parts of the whole run."""
    rows = []
    for seed in range(RUNS):
        dice = np.random.default_rng((2026, seed))
        run = make_run(dice)
        prior = None if prior_spread is None else prior_of(run, dice, prior_spread)
        progress, told = ProgressPredictor(), 0
        for part in PARTS:
            now_s = part * run.ended_s
            while told < len(run.reports) and run.reports[told][0] <= now_s:
                at_s, step = run.reports[told]
                progress.see(round(at_s * US), step, run.total)
                told += 1
            answer = progress.remaining(round(now_s * US), prior, 0)
            if answer is not None:
                step = run.reports[told - 1][1]
                naive_s = now_s / step * (run.total - step)
                said = [answer.at(level) / US / run.ended_s for level in (0.1, 0.5, 0.9)]
                rows.append((part, 1 - part, *said, naive_s / run.ended_s))
    return np.array(rows)


@pytest.fixture(scope="module")
def by_steps() -> np.ndarray:
    return answers()


def covered(rows: np.ndarray) -> float:
    return float(np.mean((rows[:, 2] <= rows[:, 1]) & (rows[:, 1] <= rows[:, 4])))


def errors(rows: np.ndarray, column: int) -> np.ndarray:
    return np.abs(rows[:, column] - rows[:, 1])


def test_eight_in_ten_lie_between_p10_and_p90(by_steps):
    assert 0.74 <= covered(by_steps) <= 0.88
    late = by_steps[by_steps[:, 0] >= 0.25]
    assert 0.74 <= covered(late) <= 0.9


def test_it_beats_the_time_so_far_by_the_steps_so_far(by_steps):
    ours, naive = errors(by_steps, 3), errors(by_steps, 5)
    assert np.median(ours) < 0.75 * np.median(naive)
    assert np.mean(ours) < 0.75 * np.mean(naive)


@pytest.mark.parametrize("part", PARTS)
def test_at_every_part_of_the_run(by_steps, part):
    rows = by_steps[by_steps[:, 0] == part]
    assert np.mean(errors(rows, 3)) < np.mean(errors(rows, 5))


def test_a_good_prior_makes_it_better_where_it_knows_little(by_steps):
    with_prior = answers(0.25)
    early, early_with = by_steps[by_steps[:, 0] <= 0.1], with_prior[with_prior[:, 0] <= 0.1]
    assert np.mean(errors(early_with, 3)) < 0.8 * np.mean(errors(early, 3))
    assert covered(with_prior) >= 0.76


def test_without_anything_unusual_it_is_nearly_exact():
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
