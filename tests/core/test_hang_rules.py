"""Each rule of its own: what is strong evidence, and what honest work looks like."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.hang.activity import CardActivity, RunActivity
from gpusquad.core.hang.hang import Evidence, HangRules, HangWatch, Suspicion
from gpusquad.core.hang.rules import judge
from gpusquad.model.waits import WAIT_KINDS

S = 1_000_000
START = 1_700_000_000 * S
RULES = HangRules()


def at(second: float) -> int:
    return START + round(second * S)


def judged(now_s: float, **facts: Any) -> dict[str, bool]:
    """Rule -> whether it may stop the run."""
    return {one.rule: one.may_stop for one in judge(Evidence(now_us=at(now_s), started_us=START, **facts), RULES)}


# -- silent --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("waits", "expected"), [
    ("stuck", {"silent": True}), ("stopped", {"silent": True}), ("sleeping", {"silent": False}),
    ("network", {"silent": False}), ("outside", {"silent": False}), ("disk", {"silent": False}),
    ("unknown", {"silent": False}), (None, {"silent": False}), ("service", {}), ("terminal", {}),
])  # fmt: skip
def test_silent_run_is_stopped_only_if_it_waits_for_itself(waits: str | None, expected: dict[str, bool]):
    assert judged(700, waits=waits, last_output_us=at(50)) == expected


def test_run_that_computes_on_cpus_is_not_silent_but_warned_of_when_its_gpus_stay_idle():
    assert judged(1700, last_cpu_us=at(1700), waits="running") == {}
    assert judged(1900, last_cpu_us=at(1900), waits="running") == {"silent": False}
    assert judged(1900, last_cpu_us=at(1900), waits="running", has_cards=False) == {}


# -- output --------------------------------------------------------------------------------------------------------


def test_equal_lines_are_a_loop():
    looping = {"new_output_us": at(5), "last_output_us": at(700), "last_cpu_us": at(400)}
    assert judged(600, repeated=600, **looping) == {}
    assert judged(700, repeated=600, **looping) == {"repeats": True}


@pytest.mark.parametrize("facts", [
    {"last_card_us": at(699)},  # trains, and a library warns in each step
    {"waits": "service"},  # logs its health checks
    {"waits": "terminal"},
    {"last_progress_us": at(650)},  # reports progress by a file
    {"new_output_us": at(300)},
    {"repeated": 10},
])  # fmt: skip
def test_equal_lines_of_honest_programs_are_left_alone(facts: dict[str, Any]):
    looping = {"new_output_us": at(5), "last_output_us": at(700), "last_cpu_us": at(700), "repeated": 600}
    assert judged(700, **(looping | facts)) == {}


def test_sign_of_life_of_a_busy_program_only_warns():
    """A compiler whose wrapper prints a line now and then."""
    facts = {"new_output_us": at(5), "last_output_us": at(700), "last_cpu_us": at(700)}
    assert judged(700, repeated=170, **facts) == {"repeats": False}
    assert judged(700, repeated=2800, **facts) == {"repeats": False}, "a word for each of its items"
    trouble = facts | {"troubles": 1000}
    assert judged(700, repeated=2800, **trouble) == {"repeats": True}
    assert judged(700, repeated=2800, **(trouble | {"troubles": 500})) == {"repeats": False}
    assert judged(700, repeated=1000, **trouble) == {"repeats": False}
    assert judged(700, repeated=2800, waits="network", **trouble) == {"repeats": False}
    assert judged(700, repeated=2800, waits="outside", **trouble) == {"repeats": False}


def test_light_program_that_says_of_each_item_that_it_is_done_is_only_warned_of():
    facts = {"new_output_us": at(5), "last_output_us": at(700), "repeated": 400}
    assert judged(700, **facts)["repeats"] is True
    assert judged(700, succeeds=True, **facts)["repeats"] is False


def test_program_that_is_started_again_after_each_error_is_a_loop_although_its_start_is_work():
    facts = {"new_output_us": at(5), "last_output_us": at(700), "last_cpu_us": at(700), "troubles": 400}
    assert judged(700, repeated=600, crashes=200, **facts) == {"repeats": True}
    assert judged(700, repeated=600, crashes=20, **facts) == {"repeats": False}


def test_disk_is_at_work_by_its_rate_between_two_readings():
    """The agent samples each second, and reads what disks did each quarter of a minute."""
    for burst, expected in ((2**17, False), (2**22, True)):
        activity = RunActivity()
        for second in range(120):
            activity = activity.after(at(second), [], RULES, cpu_ratio=0.0, disk_bytes=burst * (second // 15))
        assert (activity.last_disk_us is not None) is expected
    activity = RunActivity()
    for second in range(1000):
        activity = activity.after(at(second), [], RULES, cpu_ratio=0.0, disk_bytes=2**22 * (second // 900))
    assert activity.last_disk_us == at(900), "a burst after a long time counts as much"


FALLS = {"last_output_us": at(700), "new_output_us": at(699), "last_cpu_us": at(700), "ahead_us": at(20)}


def test_steps_that_go_back_for_ever_are_a_loop_if_errors_come_in_between():
    assert judged(700, falls=50, restarts=50, **FALLS) == {"stuck": True}
    assert judged(700, falls=50, **FALLS) == {"stuck": False}
    assert judged(700, falls=4, restarts=4, **FALLS) == {}
    assert judged(600, falls=50, restarts=50, **FALLS) == {}
    for news in ("improved_us", "last_reported_us"):
        assert judged(700, falls=50, restarts=50, **(FALLS | {news: at(300)})) == {}


def test_losses_that_were_never_numbers_beside_another_value_only_warn():
    facts = {"last_output_us": at(900), "new_output_us": at(900), "last_activity_us": at(900)}
    assert judged(900, nan_us=at(100), nan_lines=50, nan_doubtful=True, **facts) == {"nan": False}


def test_output_that_only_repeats_is_not_called_no_output():
    repeats = Evidence(now_us=at(700), started_us=START, new_output_us=at(5), last_output_us=at(699), waits="sleeping")
    (suspicion,) = judge(repeats, RULES)
    assert "nothing but repeated output for 12m" in suspicion.message


def test_strong_suspicions_come_first():
    facts = {"new_output_us": at(5), "last_output_us": at(700), "waits": "stuck", "same_step_us": at(5)}
    found = judged(700, repeated=60, same_step=60, **facts)
    assert list(found.items()) == [("silent", True), ("stuck", False), ("repeats", False)]


def test_line_now_and_then_of_an_idle_program_only_warns():
    """It may wait for a file, or for a service that is not there yet."""
    idle = {"new_output_us": at(5), "last_output_us": at(700), "last_cpu_us": at(5), "waits": "sleeping"}
    assert judged(700, repeated=70, **idle) == {"repeats": False, "silent": False}
    assert judged(700, repeated=170, **idle) == {"repeats": True, "silent": False}
    assert judged(700, repeated=170, last_disk_us=at(690), **idle) == {}


COUNTS = {"new_output_us": at(700), "last_output_us": at(700), "retry_us": at(5), "retries": 600, "waits": "sleeping"}


def test_loop_that_counts_its_attempts_is_stopped_like_one_that_does_not():
    assert judged(600, **COUNTS) == {}
    assert judged(700, **COUNTS) == {"repeats": True}
    assert judged(700, **(COUNTS | {"retries": 70})) == {"repeats": False}
    for waits in ("network", "outside", None):
        assert judged(700, **(COUNTS | {"waits": waits})) == {"repeats": False}
    for waits in ("service", "terminal"):
        assert judged(700, **(COUNTS | {"waits": waits})) == {}


@pytest.mark.parametrize("sign", ["last_mean_cpu_us", "last_card_us", "last_disk_us", "last_progress_us",
                                  "retry_us"])  # fmt: skip
def test_loop_that_counts_its_attempts_is_left_alone_if_anything_else_happens(sign: str):
    assert judged(700, **(COUNTS | {sign: at(200)})) == {}


@pytest.mark.parametrize(("cores", "may_stop"), [([0.2, 0.0, 0.0, 0.0, 0.0], [True]), ([0.06], []), ([None], [])])
def test_attempts_need_a_moment_of_a_cpu_and_no_more(cores: list[float | None], may_stop: list[bool]):
    activity = RunActivity()
    for second in range(700):
        activity = activity.after(at(second), [], RULES, cpu_ratio=cores[second % len(cores)])
    counts = {"new_us": at(699), "retry_us": at(1), "retries": 600, "waits": "sleeping"}
    found = [one.may_stop for one in judge(activity.evidence(START, counts), RULES)]
    assert found == may_stop


def test_lines_that_differ_in_numbers_only_warn_after_long_idleness():
    ticks = {"new_output_us": at(1900), "last_output_us": at(1900), "alike_us": at(5), "alike": 10**6}
    assert judged(1700, **ticks) == {}
    assert judged(1900, **ticks) == {"repeats": False}
    assert judged(1900, **(ticks | {"last_mean_cpu_us": at(300)})) == {}
    assert judged(1900, has_cards=False, **ticks) == {"repeats": False}


def test_line_that_a_thread_repeats_does_not_hide_that_the_others_wait():
    waiting = {"new_output_us": at(5), "last_output_us": at(700), "waits": "stuck"}
    assert judged(700, repeated=0, **waiting) == {"silent": True}


def test_same_step_with_other_losses_is_a_loop_also_on_busy_gpus():
    facts = {
        "longest_step_us": 30 * S,
        "last_output_us": at(700),
        "last_card_us": at(700),
        "last_activity_us": at(700),
        "last_cpu_us": at(700),
    }
    assert judged(700, same_step=300, same_step_us=at(10), new_output_us=at(700), **facts) == {"stuck": True}
    assert judged(700, same_step=60, same_step_us=at(10), new_output_us=at(700), **facts) == {"stuck": False}
    assert judged(700, same_step=20, same_step_us=at(10), new_output_us=at(700), **facts) == {}
    assert judged(700, same_step=300, same_step_us=at(200), new_output_us=at(700), **facts) == {}
    assert judged(700, same_step=300, same_step_us=at(10), new_output_us=at(700), waits="outside", **facts) == {
        "stuck": False
    }
    reported = {"last_reported_us": at(650)}
    assert judged(700, same_step=300, same_step_us=at(10), new_output_us=at(700), **facts, **reported) == {}


def test_parts_of_one_long_step_are_no_loop():
    """Minibatches of an iteration, or evaluations of a line search."""
    busy = {"same_step": 300, "same_step_us": at(10), "new_output_us": at(700), "last_output_us": at(700),
            "last_cpu_us": at(700), "last_activity_us": at(700)}  # fmt: skip
    assert judged(700, last_mean_cpu_us=at(700), **busy) == {"stuck": False}
    assert judged(700, last_mean_cpu_us=at(700), longest_step_us=600 * S, **busy) == {"stuck": False}
    assert judged(700, last_mean_cpu_us=at(300), **busy) == {"stuck": True}, "nothing works between the lines"
    assert judged(700, improved_us=at(650), longest_step_us=S, **busy) == {}


def test_equal_line_with_a_step_now_and_then_may_be_a_sign_of_life():
    facts = {"last_output_us": at(700), "last_card_us": at(700), "last_activity_us": at(700), "new_output_us": at(10)}
    assert judged(700, same_step=60, same_step_us=at(10), **facts) == {"stuck": False}
    assert judged(700, same_step=2800, same_step_us=at(10), **facts) == {"stuck": True}


def test_losses_that_are_not_numbers_stop_a_busy_run():
    facts = {"last_output_us": at(900), "new_output_us": at(900), "last_activity_us": at(900)}
    assert judged(900, nan_us=at(100), nan_lines=5, **facts) == {"nan": True}
    assert judged(900, nan_us=at(100), nan_lines=4, **facts) == {}
    assert judged(600, nan_us=at(100), nan_lines=50, **facts) == {}


def test_process_stopped_by_a_signal_is_found_although_others_print():
    facts = {
        "last_output_us": at(900),
        "new_output_us": at(900),
        "last_cpu_us": at(900),
        "stopped_detail": "python (pid 7)",
    }
    assert judged(900, stopped_us=at(300), **facts) == {"stopped": True}
    assert judged(899, stopped_us=at(300), **facts) == {}


# -- cards ---------------------------------------------------------------------------------------------------------

# Measured on an H200 with bench/hangs/card_signals.py: a kernel that spins, and replays of a graph of small kernels.
SPINNING = CardActivity(1.0, 142.0, 89.0, 700.0, received_bytes_s=436 * 1024.0, idle_received_bytes_s=439 * 1024.0)
SMALL_KERNELS = CardActivity(1.0, 141.0, 89.0, 700.0, received_bytes_s=986 * 1024.0, idle_received_bytes_s=439 * 1024.0)
UNKNOWN_BUS = CardActivity(1.0, 142.0, 89.0, 700.0)
NO_ARITHMETIC = replace(SPINNING, computes=False)
# A kernel of one block that computes is like one that spins in all but its counters.
ONE_BLOCK = replace(SPINNING, computes=True)


@pytest.mark.parametrize(
    ("card", "may_stop"),
    [(SPINNING, True), (NO_ARITHMETIC, True), (SMALL_KERNELS, False), (UNKNOWN_BUS, False)],
)
def test_busy_card_without_power_is_stopped_only_if_nothing_is_sent_to_it(card: CardActivity, may_stop: bool):
    activity = RunActivity()
    for second in range(0, 620, 10):
        activity = activity.after(at(second), [card], RULES, cpu_ratio=1.0)
    suspicions = judge(activity.evidence(START, {}), RULES)
    assert [(one.rule, one.may_stop) for one in suspicions] == [("spinning", may_stop)]


def test_kernel_of_one_block_that_computes_is_left_alone():
    activity = RunActivity()
    for second in range(0, 1200, 10):
        activity = activity.after(at(second), [ONE_BLOCK], RULES, cpu_ratio=1.0)
    assert judge(activity.evidence(START, {}), RULES) == []


# -- flood ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bytes_s", "expected"), [(2 * 2**20, ["flood"]), (2**19, [])])
def test_output_faster_than_its_limit_for_long_is_a_flood(bytes_s: int, expected: list[str]):
    activity = RunActivity()
    for second in range(0, 800, 5):
        activity = activity.after(at(second), [], RULES, cpu_ratio=1.0, log_bytes=second * bytes_s)
    assert [one.rule for one in judge(activity.evidence(START, {"new_us": at(795)}), RULES)] == expected


def test_pause_ends_a_flood():
    activity, written = RunActivity(), 0
    for second in range(0, 800, 5):
        written += 0 if 400 <= second < 500 else 5 * 2**22
        activity = activity.after(at(second), [], RULES, cpu_ratio=1.0, log_bytes=written)
    assert judge(activity.evidence(START, {"new_us": at(795)}), RULES) == []


# -- overrun -------------------------------------------------------------------------------------------------------

HOUR = 3600


def test_silent_loop_is_stopped_at_ten_times_what_was_predicted_and_not_before():
    facts = {"high_us": HOUR * S, "last_cpu_us": at(10 * HOUR), "has_cards": False}
    assert judged(2 * HOUR, **facts) == {}
    assert judged(3 * HOUR, **facts) == {"overrun": False}
    assert judged(10 * HOUR - 1, **facts) == {"overrun": False}
    assert judged(10 * HOUR, **facts) == {"overrun": True}


def test_short_prediction_does_not_stop_a_silent_run_within_six_hours():
    facts = {"high_us": S, "last_cpu_us": at(6 * HOUR), "has_cards": False}
    assert judged(6 * HOUR - 1, **facts) == {"overrun": False}
    assert judged(6 * HOUR, **facts) == {"overrun": True}


def test_by_the_prior_nobody_overruns_but_a_silent_loop_is_stopped():
    facts = {"high_us": HOUR * S, "is_prior": True, "has_cards": False}
    assert judged(9 * HOUR, last_cpu_us=at(9 * HOUR), **facts) == {}
    assert judged(10 * HOUR, last_cpu_us=at(10 * HOUR), **facts) == {"overrun": True}


@pytest.mark.parametrize("facts", [
    {"last_card_us": at(99 * HOUR)}, {"new_output_us": at(99 * HOUR)}, {"last_progress_us": at(99 * HOUR)},
    {"waits": "network"}, {"waits": "disk"}, {"waits": "outside"},
])  # fmt: skip
def test_run_that_shows_anything_is_never_stopped_for_its_prediction(facts: dict[str, Any]):
    assert judged(99 * HOUR, high_us=HOUR * S, last_cpu_us=at(99 * HOUR), has_cards=False, **facts)["overrun"] is False


# -- all rules -----------------------------------------------------------------------------------------------------

seconds = st.none() | st.integers(0, 100_000).map(at)


@given(
    times=st.fixed_dictionaries(dict.fromkeys(
        ("last_cpu_us", "last_card_us", "nan_us", "same_step_us", "stopped_us", "new_output_us"), seconds)),
    waits=st.none() | st.sampled_from(WAIT_KINDS), high=st.integers(1, 10**11),
)  # fmt: skip
def test_run_that_reports_progress_is_never_stopped_for_silence(times, waits, high):
    now = 100_000
    news = {"last_progress_us": at(now), "last_reported_us": at(now), "last_output_us": at(now)}
    found = judged(now, **(times | news), waits=waits, high_us=high, repeated=10**6,
                   same_step=10**6, nan_lines=10**6)  # fmt: skip
    assert {rule for rule, may_stop in found.items() if may_stop} <= {"nan", "stopped"}


def test_weak_suspicion_that_becomes_strong_is_told_again_and_waits_again():
    weak, strong = (Suspicion("silent", START, "quiet", "look", may_stop=may) for may in (False, True))
    watch, kinds = HangWatch(), []
    for second, suspicion in ((0, weak), (4000, weak), (4001, strong), (4240, strong), (4241, strong)):
        watch, actions = watch.step(at(second), [suspicion], RULES, stop=True)
        kinds.append([action.kind for action in actions])
    assert kinds == [["warn"], [], ["warn"], [], ["stop"]]


def test_strong_suspicion_that_is_weak_for_a_moment_is_not_counted_again():
    weak, strong = (Suspicion("silent", START, "quiet", "look", may_stop=may) for may in (False, True))
    watch, found = HangWatch(), []
    for second in range(0, 300, 10):
        watch, actions = watch.step(at(second), [weak if second % 100 == 50 else strong], RULES, stop=True)
        found += [(second, action.kind) for action in actions]
    assert found == [(0, "warn"), (240, "stop")]


def test_stop_that_is_withdrawn_is_told_once():
    weak, strong = (Suspicion("silent", START, "quiet", "look", may_stop=may) for may in (False, True))
    watch, found = HangWatch(), []
    for second in range(0, 600, 10):
        watch, actions = watch.step(at(second), [strong if second < 100 or second >= 200 else weak], RULES, stop=True)
        found += [(second, action.kind) for action in actions]
    assert found == [(0, "warn"), (160, "clear"), (200, "warn"), (440, "stop")]
    assert not any(one.may_stop for one in HangWatch().step(at(0), [weak], RULES, stop=True)[0].warned.values())


def test_rules_without_a_threshold_are_off():
    off = HangRules(**dict.fromkeys(("silent_s", "spinning_s", "stopped_s", "nan_s", "repeats_s", "flood_s",
                                     "overrun_times", "overrun_stop_times"), 0.0))  # fmt: skip
    evidence = Evidence(
        now_us=at(10**6), started_us=START, waits="stuck", spinning_since_us=START, stopped_us=START, nan_us=START,
        nan_lines=99, same_step=99, same_step_us=START, repeated=10**7, flood_since_us=START, high_us=S,
    )  # fmt: skip
    assert judge(evidence, off) == []
    assert off.look_after_s == 60.0
