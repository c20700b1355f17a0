"""Hang rules: silent, spinning and overrunning runs, warnings and stops, and crash backoff."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.hang.activity import CardActivity, RunActivity, spins
from gpusquad.core.hang.hang import Evidence, HangRules, HangWatch, Suspicion
from gpusquad.core.hang.rules import judge

S = 1_000_000
RULES = HangRules()
START = 1_700_000_000 * S
times_s = st.integers(0, 20_000)
maybe_s = st.none() | times_s


def at(seconds):
    return None if seconds is None else START + seconds * S


def evidence(now_s, **times):
    others = {
        name: times.pop(name) for name in ("high_us", "utilisation_ratio", "power_w", "power_limit_w") & times.keys()
    }
    return Evidence(
        now_us=at(now_s), started_us=START, **{f"{name}_us": at(value) for name, value in times.items()}, **others
    )


def rules_met(*args, **kwargs):
    return [suspicion.rule for suspicion in judge(evidence(*args, **kwargs), RULES)]


# -- silent --------------------------------------------------------------------------------------------------------


def test_run_without_any_activity_is_silent_from_the_threshold_on():
    assert rules_met(599) == []
    assert rules_met(600) == ["silent"]


@given(last=times_s, kind=st.sampled_from(["last_output", "last_progress", "last_activity", "watched_since"]))
def test_silence_is_counted_from_the_last_activity_of_any_kind(last, kind):
    assert rules_met(last + 599, **{kind: last}) == []
    (suspicion,) = judge(evidence(last + 600, **{kind: last}), RULES)
    assert (suspicion.rule, suspicion.since_us) == ("silent", at(last))


def test_silent_message_gives_the_durations():
    (suspicion,) = judge(evidence(7200, last_output=600, last_activity=5000), RULES)
    assert (
        suspicion.message
        == "no sign of life for 37m: no new output for 1h50m, no progress since it started, idle for 37m"
    )
    assert suspicion.cure


# -- spinning ------------------------------------------------------------------------------------------------------


def test_run_is_spinning_after_a_time_without_output_or_progress():
    busy = {"last_activity": 5000, "spinning_since": 1000}
    assert rules_met(1599, **busy) == []
    assert rules_met(1600, **busy) == ["spinning"]
    assert rules_met(1600, **busy, last_output=1001) == []
    assert rules_met(1600, **busy, last_progress=1599) == []


def test_spinning_message_gives_utilisation_power_and_duration():
    stuck = evidence(
        5000, spinning_since=200, last_activity=5000, utilisation_ratio=1.0, power_w=121.4, power_limit_w=700.0
    )
    (suspicion,) = judge(stuck, RULES)
    assert "GPUs 100% busy at 121 W of 700 W without output or progress for 1h20m" in suspicion.message


# -- overrun -------------------------------------------------------------------------------------------------------


@given(high=st.integers(1, 10_000))
def test_overrun_starts_at_three_times_the_high_prediction_or_ten_minutes(high):
    limit = max(3 * high, 600)
    active = {"last_output": limit, "high_us": high * S}
    assert rules_met(limit - 1, **active) == []
    (suspicion,) = judge(evidence(limit, **active), RULES)
    assert (suspicion.rule, suspicion.since_us, suspicion.may_stop) == ("overrun", at(limit), False)


def test_rule_with_zero_threshold_is_off():
    off = HangRules(silent_s=0, spinning_s=0, overrun_times=0)
    assert judge(evidence(10**6, spinning_since=0, high_us=1), off) == []


# -- all rules -----------------------------------------------------------------------------------------------------

any_evidence = st.fixed_dictionaries(
    {
        "last_output": maybe_s, "last_progress": maybe_s, "last_activity": maybe_s, "spinning_since": maybe_s,
        "high_us": st.none() | st.integers(0, 10**10),
    }
)  # fmt: skip


@given(now=times_s, later=times_s, evidence_args=any_evidence)
def test_suspicions_remain_while_no_activity_is_seen(now, later, evidence_args):
    assert set(rules_met(now, **evidence_args)) <= set(rules_met(now + later, **evidence_args))


@given(now=times_s, evidence_args=any_evidence)
def test_suspicion_starts_in_the_past_and_has_message_and_cure(now, evidence_args):
    for suspicion in judge(evidence(now, **evidence_args), RULES):
        assert START <= suspicion.since_us <= at(now)
        assert suspicion.message
        assert suspicion.cure


@given(now=times_s, evidence_args=any_evidence, sign=st.sampled_from(["last_output", "last_progress"]))
def test_output_or_progress_clears_all_suspicions_except_overrun(now, evidence_args, sign):
    assert set(rules_met(now, **{**evidence_args, sign: now})) <= {"overrun"}


# -- the watch -----------------------------------------------------------------------------------------------------


def silent(since_s=0):
    return Suspicion("silent", at(since_s), "quiet", "look", may_stop=True)


OVERRUN = Suspicion("overrun", at(0), "long", "wait", may_stop=False)


def walk(steps, *, stop=True, rules=RULES):
    """Kinds of the notices after each (second, suspicions)."""
    watch, kinds = HangWatch(), []
    for second, suspicions in steps:
        watch, notices = watch.step(at(second), suspicions, rules, stop=stop)
        kinds.append([notice.kind for notice in notices])
    return kinds


def test_watch_warns_once_then_stops_once():
    steps = [(0, []), (10, [silent()]), (11, [silent()]), (249, [silent()]), (250, [silent()]), (900, [silent()])]
    assert walk(steps) == [[], ["warn"], [], [], ["stop"], []]


def test_watch_only_warns_when_stopping_is_off():
    assert walk([(10, [silent()]), (10_000, [silent()])], stop=False) == [["warn"], []]


def test_activity_clears_the_warning_and_restarts_the_count():
    steps = [(10, [silent()]), (600, []), (700, [silent(600)]), (900, [silent(600)]), (940, [silent(600)])]
    assert walk(steps) == [["warn"], ["clear"], ["warn"], [], ["stop"]]


def test_activity_between_two_steps_restarts_the_count():
    assert walk([(10, [silent(0)]), (5000, [silent(3000)]), (5601, [silent(3000)])]) == [["warn"], ["warn"], ["stop"]]


def test_weak_suspicion_never_stops_a_run():
    assert walk([(0, [OVERRUN]), (10**6, [OVERRUN])]) == [["warn"], []]


def test_run_warned_earlier_is_stopped_when_stopping_is_switched_on():
    watch, _ = HangWatch().step(at(0), [silent()], RULES, stop=False)
    _, notices = watch.step(at(700), [silent()], RULES, stop=True)
    assert [notice.kind for notice in notices] == ["stop"]


def test_warning_shows_the_present_evidence_and_the_time_of_its_stop():
    watch, _ = HangWatch().step(at(0), [silent()], RULES, stop=True)
    now = replace(silent(), message="no sign of life for 2h")
    watch, notices = watch.step(at(1), [now], RULES, stop=True)
    (warning,) = watch.warned.values()
    assert (notices, warning.message, warning.at_us) == ((), "no sign of life for 2h", at(0))
    assert warning.stops_us(RULES) == at(0) + RULES.stop_after_s * 1_000_000
    watch, _ = watch.step(at(2), [replace(now, may_stop=False)], RULES, stop=True)
    assert [one.stops_us(RULES) for one in watch.warned.values()] == [None]
    assert watch.step(at(3), [], RULES, stop=True)[0].warned == {}


@given(
    steps=st.lists(st.tuples(st.integers(0, 500), st.booleans(), st.booleans(), st.booleans()), max_size=60),
    stop_after_s=st.integers(0, 1000),
)
def test_watch_warns_once_per_rule_and_stops_at_most_once(steps, stop_after_s):
    rules = HangRules(stop_after_s=stop_after_s)
    watch, second, stops = HangWatch(), 0, 0
    warned_s: dict[str, int] = {}
    for passed, is_silent, is_overrun, stop in steps:
        second += passed
        suspicions = [silent()] * is_silent + [OVERRUN] * is_overrun
        before = watch
        watch, notices = watch.step(at(second), suspicions, rules, stop=stop)
        for notice in notices:
            if notice.kind == "warn":
                assert notice.rule not in warned_s
                warned_s[notice.rule] = second
            elif notice.kind == "clear":
                del warned_s[notice.rule]
            else:
                stops += 1
                assert stop
                assert notice.rule == "silent"
                assert second - warned_s["silent"] >= stop_after_s
        assert set(warned_s) == {suspicion.rule for suspicion in suspicions} == set(watch.warned)
        assert before.step(at(second), suspicions, rules, stop=stop) == (watch, notices)
    assert stops <= 1


# -- activity of a run ---------------------------------------------------------------------------------------------

STUCK = CardActivity(1.0, power_w=130.0, idle_power_w=75.0, power_limit_w=700.0)
WORKING = CardActivity(1.0, power_w=600.0, idle_power_w=75.0, power_limit_w=700.0)
IDLE = CardActivity(0.0, power_w=75.0, idle_power_w=75.0, power_limit_w=700.0)


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        (STUCK, True),
        (WORKING, False),
        (IDLE, False),
        (CardActivity(1.0, 231.0, 75.0, 700.0), True),
        (CardActivity(1.0, 232.0, 75.0, 700.0), False),
        (CardActivity(0.94, 130.0, 75.0, 700.0), False),
        (CardActivity(None, 130.0, 75.0, 700.0), False),
        (CardActivity(1.0, None, 75.0, 700.0), False),
        (CardActivity(1.0, 130.0, 75.0, None), False),
        # Busy since the first sample: the lowest power seen is not the idle power.
        (CardActivity(1.0, 610.0, 600.0, 700.0), False),
        (CardActivity(1.0, 150.0, 150.0, 700.0), True),
    ],
)
def test_card_spins_when_busy_at_low_power(card, expected):
    assert spins(card, RULES) is expected


def activity_after(cards, seconds, *, every=10, activity=None, first=0, **ratios):
    activity = activity or RunActivity()
    for second in range(first, first + seconds + 1, every):
        activity = activity.after(at(second), cards, RULES, **ratios)
    return activity


def test_gang_that_waits_for_one_rank_is_spinning():
    activity = activity_after([STUCK, STUCK, IDLE], 1200)
    assert activity.spinning_since_us == START
    assert [suspicion.rule for suspicion in judge(activity.evidence(START, {}), RULES)] == ["spinning"]


def test_gang_with_one_working_card_is_not_spinning():
    assert activity_after([STUCK, WORKING], 1200).spinning_since_us is None


def test_run_on_idle_cards_is_silent_although_its_cpus_are_busy():
    activity = activity_after([IDLE], 1800, cpu_ratio=4.0)
    assert [suspicion.rule for suspicion in judge(activity.evidence(START, {}), RULES)] == ["silent"]
    assert judge(activity.evidence(START, {"last_output_us": at(5)}), RULES) == []


def test_run_without_cards_is_judged_by_its_cpu_use():
    assert judge(activity_after([], 1800, cpu_ratio=0.5).evidence(START, {}), RULES) == []
    idle = activity_after([], 1800, cpu_ratio=0.0).evidence(START, {})
    assert [suspicion.rule for suspicion in judge(idle, RULES)] == ["silent"]


def test_silent_run_is_found_although_its_neighbour_is_busy():
    assert judge(activity_after([WORKING], 1800).evidence(START, {}), RULES) == []
    assert [
        suspicion.rule for suspicion in judge(activity_after([WORKING], 1800, gpu_ratio=0.0).evidence(START, {}), RULES)
    ] == ["silent"]


def test_unknown_card_activity_counts_as_work():
    assert judge(activity_after([CardActivity(None)], 3600).evidence(START, {}), RULES) == []


def test_time_without_samples_does_not_count_as_silence():
    activity = activity_after([IDLE], 1700)
    later = activity.after(at(9000), [IDLE], RULES)
    assert later.watched_since_us == at(9000)
    assert judge(later.evidence(START, {}), RULES) == []
    assert judge(activity.after(at(100), [IDLE], RULES).evidence(START, {}), RULES) == []  # the clock was set back


@given(
    st.lists(
        st.tuples(st.integers(-100, 200), st.sampled_from([STUCK, WORKING, IDLE, CardActivity(None)])), max_size=50
    )
)
def test_activity_times_are_never_later_than_the_last_sample(samples):
    activity, second = RunActivity(), 0
    for passed, card in samples:
        second += passed
        activity = activity.after(at(second), [card], RULES)
        for time_us in (activity.watched_since_us, activity.last_activity_us, activity.spinning_since_us):
            assert time_us is None or time_us <= at(second)
        if card is WORKING:
            assert activity.last_activity_us == at(second)
            assert activity.spinning_since_us is None
