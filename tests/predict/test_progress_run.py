"""The remaining time of one run from its steps: what it makes of everything that runs do."""

import json
from math import exp
from statistics import NormalDist

import pytest

from gpusquad.model.prediction import LEVELS, Quantiles, certain
from gpusquad.predict._prior import blend, remaining_if_running
from gpusquad.predict.progress import ProgressPredictor

S = 1_000_000
HOUR = 3600 * S


class Told:
    """A run that reports as told; its clock goes on with its steps."""

    def __init__(self, total: int | None = 1000, started_s: float = 0.0) -> None:
        self.progress, self.total, self.now_s, self.step = ProgressPredictor(), total, started_s, 0

    def steps(self, count: int, pace_s: float, *, by: int = 1) -> "Told":
        for _ in range(count):
            self.step += by
            self.now_s += by * pace_s
            self.see()
        return self

    def see(self) -> None:
        self.progress.see(round(self.now_s * S), self.step, self.total)

    def rest(self, seconds: float) -> "Told":
        self.now_s += seconds
        return self

    def left(self, prior: Quantiles | None = None) -> Quantiles:
        answer = self.progress.remaining(round(self.now_s * S), prior, 0)
        assert answer is not None
        return answer

    def left_s(self, level: float = 0.5) -> float:
        return self.left().at(level) / S


def around(middle_s: float, spread: float, confidence: float = 0.8) -> Quantiles:
    """A prior of the whole run time."""
    return Quantiles(LEVELS, tuple(round(value) for value in normal(middle_s, spread)), "history", confidence)


def normal(middle_s: float, spread: float) -> tuple[float, ...]:
    return tuple(middle_s * S * exp(spread * NormalDist().inv_cdf(level)) for level in LEVELS)


def test_a_steady_run_takes_what_its_steps_take():
    run = Told(total=1000).rest(60).steps(100, 2.0)
    assert run.left_s() == pytest.approx(1800, rel=0.01)
    assert run.left_s(0.1) < 1800 < run.left_s(0.9)
    assert run.left().source == "progress"
    assert run.left().levels == LEVELS


def test_it_grows_narrower_and_surer_with_the_steps():
    early, late = Told().steps(50, 2.0).left(), Told().steps(700, 2.0).left()
    assert early.at(0.9) / early.at(0.1) > late.at(0.9) / late.at(0.1)
    assert 0 < early.confidence < late.confidence < 1


def test_between_two_reports_the_time_goes_by():
    run = Told(total=10).steps(5, 60.0)
    before_s = run.left_s()
    assert run.rest(30).left_s() == pytest.approx(before_s - 30, abs=1)


@pytest.mark.parametrize("total", [None, 0, -5])
def test_without_a_total_it_cannot_tell(total):
    run = Told(total=total).steps(20, 2.0)
    assert run.progress.remaining(round(run.now_s * S), around(100, 0.2), 0) is None


def test_a_total_that_becomes_known_and_one_that_changes():
    run = Told(total=None).steps(20, 2.0)
    run.total = 100
    assert run.steps(1, 2.0).left_s() == pytest.approx(158, abs=4)
    run.total = 200
    assert run.steps(1, 2.0).left_s() == pytest.approx(356, abs=8)
    run.total = None
    run.steps(1, 2.0)
    assert run.progress.remaining(round(run.now_s * S), None, 0) is None


def test_nothing_is_known_before_the_first_steps():
    progress = ProgressPredictor()
    assert progress.remaining(5 * S, around(100, 0.2), 0) is None
    progress.see(5 * S, 0, 100)
    assert progress.remaining(6 * S, around(100, 0.2), 0) is None


def test_a_slow_start_does_not_come_again():
    run = Told(total=1000)
    run.see()
    run.steps(1, 90.0).steps(30, 1.0)  # compiled for a minute and a half
    assert run.left_s() == pytest.approx(969, rel=0.03)


def evaluating(until: int, total: int = 1000, every: int = 100, pause_s: float = 40.0) -> Told:
    run = Told(total=total)
    for step in range(until):
        if step and step % every == 0:
            run.rest(pause_s)
        run.steps(1, 1.0)
    return run


def test_evaluations_still_to_come_are_counted():
    run = evaluating(450)
    assert run.left_s() == pytest.approx(550 + 6 * 40, rel=0.04)  # the last one after the last step


def test_an_evaluation_that_is_due_does_not_frighten_it():
    run = evaluating(500)
    before_s = run.left_s()
    for waited_s in (10, 20, 30, 40):
        assert before_s - waited_s - 15 < run.rest(10).left_s() < before_s - waited_s + 15


def test_a_pause_that_nobody_expected_costs_no_more_than_itself():
    run = Told().steps(500, 1.0)
    before_s = run.left_s()
    for waited_s in range(60, 660, 60):
        run.rest(60)
        assert run.left_s() <= before_s + waited_s
        assert run.left_s(0.9) > before_s  # but it may last


def test_a_clock_that_jumps_ahead_is_one_accident():
    run = Told().steps(300, 1.0).rest(86_400).steps(50, 1.0)
    assert run.left_s() < 3 * 650


def test_a_clock_that_is_set_back():
    run = Told().steps(300, 1.0)
    run.now_s -= 7200
    run.steps(50, 1.0)
    assert run.left_s() == pytest.approx(650, rel=0.02)


def test_late_and_double_reports_change_nothing():
    run, same = Told().steps(300, 1.0), Told().steps(300, 1.0)
    for at_s, step in ((299, 299), (300, 300), (17, 17), (300, 300)):
        run.progress.see(at_s * S, step, 1000)
    assert run.left() == same.left()


def test_back_to_a_checkpoint_the_steps_come_once_more():
    run = Told().steps(400, 1.0)
    run.step = 200
    run.rest(30).see()
    run.steps(5, 1.0)
    assert run.left_s() == pytest.approx(795, rel=0.03)


def test_other_steps_of_another_total_are_another_count():
    run = Told(total=100).steps(100, 10.0)
    run.step, run.total = 0, 5000
    run.see()
    run.steps(20, 1.0, by=10)
    assert run.left_s() == pytest.approx(4800, rel=0.05)


def test_a_neighbour_who_comes_is_noticed_and_makes_it_less_sure():
    alone, beside = Told().steps(400, 1.0), Told().steps(400, 1.0).steps(60, 2.0)
    assert 1.3 * 540 < beside.left_s() < 2.05 * 540
    assert beside.left_s(0.1) < 1.2 * 540  # may go again
    assert beside.left_s(0.9) > 1.9 * 540  # may stay
    assert beside.left_s(0.9) / beside.left_s(0.1) > alone.left_s(0.9) / alone.left_s(0.1)


def test_the_longer_the_neighbour_stays_the_more_it_is_believed():
    short, long = (Told(total=2000).steps(400, 1.0).steps(count, 2.0) for count in (20, 600))
    assert short.left_s() / (2000 - short.step) < long.left_s() / (2000 - long.step)


def test_who_is_told_of_a_neighbour_need_not_wait_for_it():
    run = Told().steps(400, 1.0)
    before_s = run.left_s()
    run.progress.slowed(round(run.now_s * S), 0.5)
    assert 1.05 * before_s < run.left_s() < 2 * before_s
    run.steps(100, 2.0)
    run.progress.slowed(round(run.now_s * S), 1.0)
    assert run.left_s() == pytest.approx(500, rel=0.2)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_cannot_be_is_not_believed(rate):
    run = Told().steps(100, 1.0)
    before = run.left()
    run.progress.slowed(round(run.now_s * S), rate)
    assert run.left() == before


def test_a_pace_that_drifts_is_followed():
    run, truth_s = Told(total=1000), 0.0
    for step in range(1000):
        pace_s = 1.0 + 2.0 * step / 1000
        if step < 600:
            run.steps(1, pace_s)
        else:
            truth_s += pace_s
    assert run.left_s() == pytest.approx(truth_s, rel=0.1)
    assert run.left_s() > 400 * 1.9  # more than all so far would say


def test_one_report_per_epoch():
    run = Told(total=10).rest(20).steps(1, 600.0).rest(60)
    assert run.left_s(0.1) < 9 * 600 - 60 < run.left_s(0.9)
    run.now_s -= 60
    run.steps(3, 600.0)
    assert run.left_s() == pytest.approx(3600, rel=0.02)


def test_a_first_report_from_the_middle_says_nothing_by_itself():
    progress = ProgressPredictor()
    progress.see(30 * S, 500, 1000)  # went on from a checkpoint
    assert progress.remaining(60 * S, None, 0) is None


def test_a_flood_of_reports_is_as_good_as_one_a_second():
    flood, calm = Told(total=100_000).steps(20_000, 0.005), Told(total=100_000).steps(100, 0.005, by=200)
    assert flood.left_s() == pytest.approx(calm.left_s(), rel=0.01)


def test_all_steps_done_and_still_there():
    run = Told(total=500).steps(500, 1.0)
    assert 0 < run.left_s() < 10
    tail_s = [run.rest(60).left_s(0.9) for _ in range(5)]
    assert tail_s == sorted(tail_s)  # whoever has saved for minutes may go on
    assert 0 < run.left_s() < 300


def test_it_stays_small_however_long_it_runs():
    run = Told(total=10**6)
    for _ in range(300):
        run.steps(99, 1.0).rest(30).steps(1, 1.0)
    assert len(json.dumps(run.progress.dump())) < 16_000


def test_what_was_kept_goes_on_as_if_nothing_had_been():
    run = evaluating(450)
    run.progress.slowed(round(run.now_s * S), 0.7)
    again = Told()
    again.progress = ProgressPredictor.load(json.loads(json.dumps(run.progress.dump())))
    again.now_s, again.step = run.now_s, run.step
    assert again.left() == run.left()
    assert again.steps(70, 1.5).left() == run.steps(70, 1.5).left()


@pytest.mark.parametrize("dumped", [{}, {"format": 99}, {"format": 1, "clock": {"what": 1}}, {"format": 1, "clock": 3}])
def test_what_was_not_written_by_it_is_refused(dumped):
    with pytest.raises((ValueError, KeyError, TypeError)):
        ProgressPredictor.load(dumped)


# -- and what was believed before --------------------------------------------------------------------------------------


def test_first_the_prior_speaks_then_the_steps():
    prior = around(2000, 0.15)  # the run will take 1000 s
    shares = []
    for done in (10, 100, 300):
        run = Told().steps(done, 1.0)
        own_s, prior_s = run.left_s(), remaining_if_running(prior, run.now_s * S)[LEVELS.index(0.5)] / S
        shares.append((run.left(prior).at(0.5) / S - own_s) / (prior_s - own_s))
    assert shares[0] > 0.6
    assert shares[1] < 0.4
    assert shares[2] < 0.15
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize("prior", [None, around(50_000, 0.2, confidence=0.0)])
def test_a_prior_without_confidence_says_nothing(prior):
    run = Told().steps(10, 1.0)
    assert run.left(prior) == run.left()


def test_a_prior_that_is_contradicted_loses():
    run = Told().steps(250, 1.0)
    assert run.left(around(100_000, 0.1)).at(0.5) / S == pytest.approx(750, rel=0.5)


def test_those_that_still_run_last_longer():
    prior = around(1000, 0.5)
    early, late = remaining_if_running(prior, 0), remaining_if_running(prior, 1000 * S)
    assert early == pytest.approx([float(value) for value in prior.values], rel=0.02)
    assert [value + 1000 * S for value in late] > [float(value) for value in prior.values]
    assert late[LEVELS.index(0.5)] < early[LEVELS.index(0.5)]


def test_a_prior_that_is_long_over_expects_as_much_again_at_most():
    left = remaining_if_running(around(100, 0.1), 10_000 * S)
    assert 0 < left[0] < left[LEVELS.index(0.5)] < 10_000 * S


def test_a_single_number_is_a_vague_prior():
    left = remaining_if_running(certain(HOUR, "user", 0.3), 0.0)
    assert left[LEVELS.index(0.5)] == pytest.approx(HOUR, rel=0.01)
    assert left[LEVELS.index(0.9)] > 1.5 * HOUR


def test_two_that_agree_are_surer_together():
    one = normal(100, 0.3)
    both = blend(one, one, 1.0)
    low, middle, high = (LEVELS.index(level) for level in (0.1, 0.5, 0.9))
    assert both[high] / both[low] < one[high] / one[low]
    assert both[middle] == pytest.approx(one[middle])
