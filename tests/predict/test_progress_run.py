"""Tests for predicting the remaining time of a run from its progress."""

import json
from math import exp
from statistics import NormalDist

import pytest

from gpusquad.model.prediction import LEVELS, Quantiles, certain
from gpusquad.predict._prior import blend, remaining_if_running
from gpusquad.predict.progress import ProgressPredictor

S = 1_000_000
HOUR = 3600 * S


class SimulatedRun:
    """A run with a simulated clock that reports its steps to a predictor."""

    def __init__(self, total: int | None = 1000, started_s: float = 0.0) -> None:
        self.progress, self.total, self.now_s, self.step = ProgressPredictor(), total, started_s, 0

    def steps(self, count: int, pace_s: float, *, by: int = 1) -> "SimulatedRun":
        for _ in range(count):
            self.step += by
            self.now_s += by * pace_s
            self.see()
        return self

    def see(self) -> None:
        self.progress.see(round(self.now_s * S), self.step, self.total)

    def pause(self, seconds: float) -> "SimulatedRun":
        self.now_s += seconds
        return self

    def left(self, prior: Quantiles | None = None) -> Quantiles:
        answer = self.progress.remaining(round(self.now_s * S), prior, 0)
        assert answer is not None
        return answer

    def left_s(self, level: float = 0.5) -> float:
        return self.left().at(level) / S


def around(median_s: float, spread: float, confidence: float = 0.8) -> Quantiles:
    """A log-normal prior of the total run time."""
    return Quantiles(LEVELS, tuple(round(value) for value in log_normal(median_s, spread)), "history", confidence)


def log_normal(median_s: float, spread: float) -> tuple[float, ...]:
    return tuple(median_s * S * exp(spread * NormalDist().inv_cdf(level)) for level in LEVELS)


def test_steady_run_is_predicted_from_its_step_time():
    run = SimulatedRun(total=1000).pause(60).steps(100, 2.0)
    assert run.left_s() == pytest.approx(1800, rel=0.01)
    assert run.left_s(0.1) < 1800 < run.left_s(0.9)
    assert run.left().source == "progress"
    assert run.left().levels == LEVELS


def test_prediction_gets_narrower_and_more_confident_with_steps():
    early, late = SimulatedRun().steps(50, 2.0).left(), SimulatedRun().steps(700, 2.0).left()
    assert early.at(0.9) / early.at(0.1) > late.at(0.9) / late.at(0.1)
    assert 0 < early.confidence < late.confidence < 1


def test_remaining_time_decreases_between_reports():
    run = SimulatedRun(total=10).steps(5, 60.0)
    before_s = run.left_s()
    assert run.pause(30).left_s() == pytest.approx(before_s - 30, abs=1)


@pytest.mark.parametrize("total", [None, 0, -5])
def test_no_prediction_without_a_valid_total(total):
    run = SimulatedRun(total=total).steps(20, 2.0)
    assert run.progress.remaining(round(run.now_s * S), around(100, 0.2), 0) is None


def test_prediction_follows_a_changed_total():
    run = SimulatedRun(total=None).steps(20, 2.0)
    run.total = 100
    assert run.steps(1, 2.0).left_s() == pytest.approx(158, abs=4)
    run.total = 200
    assert run.steps(1, 2.0).left_s() == pytest.approx(356, abs=8)
    run.total = None
    run.steps(1, 2.0)
    assert run.progress.remaining(round(run.now_s * S), None, 0) is None


def test_no_prediction_before_the_first_steps():
    progress = ProgressPredictor()
    assert progress.remaining(5 * S, around(100, 0.2), 0) is None
    progress.see(5 * S, 0, 100)
    assert progress.remaining(6 * S, around(100, 0.2), 0) is None


def test_slow_first_step_is_not_extrapolated():
    run = SimulatedRun(total=1000)
    run.see()
    run.steps(1, 90.0).steps(30, 1.0)  # 90 seconds of compilation
    assert run.left_s() == pytest.approx(969, rel=0.03)


def run_with_evaluations(until: int, total: int = 1000, every: int = 100, pause_s: float = 40.0) -> SimulatedRun:
    run = SimulatedRun(total=total)
    for step in range(until):
        if step and step % every == 0:
            run.pause(pause_s)
        run.steps(1, 1.0)
    return run


def test_future_evaluations_are_included():
    run = run_with_evaluations(450)
    assert run.left_s() == pytest.approx(550 + 6 * 40, rel=0.04)  # the last evaluation follows the last step


def test_expected_evaluation_does_not_change_the_predicted_end():
    run = run_with_evaluations(500)
    before_s = run.left_s()
    for waited_s in (10, 20, 30, 40):
        assert before_s - waited_s - 15 < run.pause(10).left_s() < before_s - waited_s + 15


def test_unexpected_pause_adds_at_most_its_own_length():
    run = SimulatedRun().steps(500, 1.0)
    before_s = run.left_s()
    for waited_s in range(60, 660, 60):
        run.pause(60)
        assert run.left_s() <= before_s + waited_s
        assert run.left_s(0.9) > before_s  # but the pause may continue


def test_clock_jump_ahead_is_treated_as_one_outlier():
    run = SimulatedRun().steps(300, 1.0).pause(86_400).steps(50, 1.0)
    assert run.left_s() < 3 * 650


def test_clock_set_back_does_not_change_the_prediction():
    run = SimulatedRun().steps(300, 1.0)
    run.now_s -= 7200
    run.steps(50, 1.0)
    assert run.left_s() == pytest.approx(650, rel=0.02)


def test_late_and_duplicate_reports_are_ignored():
    run, reference = SimulatedRun().steps(300, 1.0), SimulatedRun().steps(300, 1.0)
    for at_s, step in ((299, 299), (300, 300), (17, 17), (300, 300)):
        run.progress.see(at_s * S, step, 1000)
    assert run.left() == reference.left()


def test_return_to_a_checkpoint_adds_the_repeated_steps():
    run = SimulatedRun().steps(400, 1.0)
    run.step = 200
    run.pause(30).see()
    run.steps(5, 1.0)
    assert run.left_s() == pytest.approx(795, rel=0.03)


def test_new_total_with_a_reset_step_starts_a_new_count():
    run = SimulatedRun(total=100).steps(100, 10.0)
    run.step, run.total = 0, 5000
    run.see()
    run.steps(20, 1.0, by=10)
    assert run.left_s() == pytest.approx(4800, rel=0.05)


def test_slowdown_by_a_neighbour_raises_and_widens_the_prediction():
    alone, beside = SimulatedRun().steps(400, 1.0), SimulatedRun().steps(400, 1.0).steps(60, 2.0)
    assert 1.3 * 540 < beside.left_s() < 2.05 * 540
    assert beside.left_s(0.1) < 1.2 * 540  # the neighbour may leave
    assert beside.left_s(0.9) > 1.9 * 540  # the neighbour may stay
    assert beside.left_s(0.9) / beside.left_s(0.1) > alone.left_s(0.9) / alone.left_s(0.1)


def test_longer_slowdown_has_more_weight():
    short, long = (SimulatedRun(total=2000).steps(400, 1.0).steps(count, 2.0) for count in (20, 600))
    assert short.left_s() / (2000 - short.step) < long.left_s() / (2000 - long.step)


def test_reported_slowdown_changes_the_prediction_at_once():
    run = SimulatedRun().steps(400, 1.0)
    before_s = run.left_s()
    run.progress.slowed(round(run.now_s * S), 0.5)
    assert 1.05 * before_s < run.left_s() < 2 * before_s
    run.steps(100, 2.0)
    run.progress.slowed(round(run.now_s * S), 1.0)
    assert run.left_s() == pytest.approx(500, rel=0.2)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_invalid_rate_is_ignored(rate):
    run = SimulatedRun().steps(100, 1.0)
    before = run.left()
    run.progress.slowed(round(run.now_s * S), rate)
    assert run.left() == before


def test_prediction_follows_a_drifting_step_time():
    run, actual_s = SimulatedRun(total=1000), 0.0
    for step in range(1000):
        pace_s = 1.0 + 2.0 * step / 1000
        if step < 600:
            run.steps(1, pace_s)
        else:
            actual_s += pace_s
    assert run.left_s() == pytest.approx(actual_s, rel=0.1)
    assert run.left_s() > 400 * 1.9  # more than the mean step time so far would give


def test_prediction_works_with_one_report_per_epoch():
    run = SimulatedRun(total=10).pause(20).steps(1, 600.0).pause(60)
    assert run.left_s(0.1) < 9 * 600 - 60 < run.left_s(0.9)
    run.now_s -= 60
    run.steps(3, 600.0)
    assert run.left_s() == pytest.approx(3600, rel=0.02)


def test_no_prediction_from_a_single_report_in_mid_run():
    progress = ProgressPredictor()
    progress.see(30 * S, 500, 1000)  # resumed from a checkpoint
    assert progress.remaining(60 * S, None, 0) is None


def test_many_reports_give_the_same_prediction_as_few():
    frequent, sparse = (
        SimulatedRun(total=100_000).steps(20_000, 0.005),
        SimulatedRun(total=100_000).steps(100, 0.005, by=200),
    )
    assert frequent.left_s() == pytest.approx(sparse.left_s(), rel=0.01)


def test_remaining_time_stays_positive_after_the_last_step():
    run = SimulatedRun(total=500).steps(500, 1.0)
    assert 0 < run.left_s() < 10
    tail_s = [run.pause(60).left_s(0.9) for _ in range(5)]
    assert tail_s == sorted(tail_s)  # a run that has been saving for minutes may continue
    assert 0 < run.left_s() < 300


def test_state_stays_small_for_long_runs():
    run = SimulatedRun(total=10**6)
    for _ in range(300):
        run.steps(99, 1.0).pause(30).steps(1, 1.0)
    assert len(json.dumps(run.progress.dump())) < 16_000


def test_reloaded_predictor_continues_the_same():
    run = run_with_evaluations(450)
    run.progress.slowed(round(run.now_s * S), 0.7)
    restored = SimulatedRun()
    restored.progress = ProgressPredictor.load(json.loads(json.dumps(run.progress.dump())))
    restored.now_s, restored.step = run.now_s, run.step
    assert restored.left() == run.left()
    assert restored.steps(70, 1.5).left() == run.steps(70, 1.5).left()


@pytest.mark.parametrize("dumped", [{}, {"format": 99}, {"format": 1, "clock": {"what": 1}}, {"format": 1, "clock": 3}])
def test_invalid_state_is_refused(dumped):
    with pytest.raises((ValueError, KeyError, TypeError)):
        ProgressPredictor.load(dumped)


# -- prior predictions -------------------------------------------------------------------------------------------------


def test_weight_of_the_prior_decreases_with_steps():
    prior = around(2000, 0.15)  # the run will take 1000 s
    shares = []
    for done in (10, 100, 300):
        run = SimulatedRun().steps(done, 1.0)
        steps_s, prior_s = run.left_s(), remaining_if_running(prior, run.now_s * S)[LEVELS.index(0.5)] / S
        shares.append((run.left(prior).at(0.5) / S - steps_s) / (prior_s - steps_s))
    assert shares[0] > 0.6
    assert shares[1] < 0.4
    assert shares[2] < 0.15
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize("prior", [None, around(50_000, 0.2, confidence=0.0)])
def test_prior_without_confidence_is_ignored(prior):
    run = SimulatedRun().steps(10, 1.0)
    assert run.left(prior) == run.left()


def test_contradicted_prior_has_little_weight():
    run = SimulatedRun().steps(250, 1.0)
    assert run.left(around(100_000, 0.1)).at(0.5) / S == pytest.approx(750, rel=0.5)


def test_prior_is_conditioned_on_the_elapsed_time():
    prior = around(1000, 0.5)
    early, late = remaining_if_running(prior, 0), remaining_if_running(prior, 1000 * S)
    assert early == pytest.approx([float(value) for value in prior.values], rel=0.02)
    assert [value + 1000 * S for value in late] > [float(value) for value in prior.values]
    assert late[LEVELS.index(0.5)] < early[LEVELS.index(0.5)]


def test_exceeded_prior_predicts_at_most_the_elapsed_time_again():
    left = remaining_if_running(around(100, 0.1), 10_000 * S)
    assert 0 < left[0] < left[LEVELS.index(0.5)] < 10_000 * S


def test_single_number_is_a_wide_prior():
    left = remaining_if_running(certain(HOUR, "user", 0.3), 0.0)
    assert left[LEVELS.index(0.5)] == pytest.approx(HOUR, rel=0.01)
    assert left[LEVELS.index(0.9)] > 1.5 * HOUR


def test_blend_of_equal_distributions_is_narrower():
    single = log_normal(100, 0.3)
    both = blend(single, single, 1.0)
    low, middle, high = (LEVELS.index(level) for level in (0.1, 0.5, 0.9))
    assert both[high] / both[low] < single[high] / single[low]
    assert both[middle] == pytest.approx(single[middle])


def test_rounds_of_the_same_few_epochs_are_followed():
    """A bar that starts again ends the pace so far, and nothing is known of the next one yet."""
    follower, at_us = ProgressPredictor(), 0
    for _ in range(60):
        for epoch in (1, 2, 3):
            at_us += 3_000_000
            follower.see(at_us, epoch, 3)
            follower.remaining(at_us + 1_000_000, None, 0)
