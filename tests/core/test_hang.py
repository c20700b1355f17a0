"""Judging whether a run is stuck."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.hang.activity import CardActivity, RunActivity, spins
from gpusquad.core.hang.hang import Evidence, HangRules, HangWatch, Suspicion, crash_backoff_s, judge

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


def test_a_run_without_any_sign_is_silent_from_the_threshold_on():
    assert rules_met(1799) == []
    assert rules_met(1800) == ["silent"]


@given(last=times_s, kind=st.sampled_from(["last_output", "last_progress", "last_activity", "watched_since"]))
def test_any_sign_of_life_keeps_suspicion_away(last, kind):
    assert rules_met(last + 1799, **{kind: last}) == []
    (suspicion,) = judge(evidence(last + 1800, **{kind: last}), RULES)
    assert (suspicion.rule, suspicion.since_us) == ("silent", at(last))


def test_the_message_has_the_numbers():
    (suspicion,) = judge(evidence(7200, last_output=600, last_activity=5000), RULES)
    assert (
        suspicion.message == "no sign of life for 37m: no output for 1h50m, no progress since it started, idle for 37m"
    )
    assert suspicion.cure


# -- spinning ------------------------------------------------------------------------------------------------------


def test_spinning_needs_time_without_output_or_progress():
    busy = {"last_activity": 5000, "spinning_since": 1000}
    assert rules_met(2199, **busy) == []
    assert rules_met(2200, **busy) == ["spinning"]
    assert rules_met(2200, **busy, last_output=1001) == []
    assert rules_met(2200, **busy, last_progress=2199) == []


def test_the_message_of_spinning_has_the_numbers():
    stuck = evidence(
        5000, spinning_since=200, last_activity=5000, utilisation_ratio=1.0, power_w=121.4, power_limit_w=700.0
    )
    (suspicion,) = judge(stuck, RULES)
    assert "GPUs 100% busy at 121 W of 700 W without output or progress for 1h20m" in suspicion.message


# -- overrun -------------------------------------------------------------------------------------------------------


@given(high=st.integers(1, 10_000))
def test_overrun_is_three_times_the_high_forecast_and_never_soon(high):
    limit = max(3 * high, 600)
    active = {"last_output": limit, "high_us": high * S}
    assert rules_met(limit - 1, **active) == []
    (suspicion,) = judge(evidence(limit, **active), RULES)
    assert (suspicion.rule, suspicion.since_us, suspicion.may_stop) == ("overrun", at(limit), False)


def test_a_rule_can_be_switched_off():
    off = HangRules(silent_s=0, spinning_s=0, overrun_times=0)
    assert judge(evidence(10**6, spinning_since=0, high_us=1), off) == []


# -- what holds for every rule -------------------------------------------------------------------------------------

anything = st.fixed_dictionaries(
    {
        "last_output": maybe_s, "last_progress": maybe_s, "last_activity": maybe_s, "spinning_since": maybe_s,
        "high_us": st.none() | st.integers(0, 10**10),
    }
)  # fmt: skip


@given(now=times_s, later=times_s, known=anything)
def test_without_new_signs_suspicion_only_grows(now, later, known):
    assert set(rules_met(now, **known)) <= set(rules_met(now + later, **known))


@given(now=times_s, known=anything)
def test_suspicions_lie_in_the_past_and_say_something(now, known):
    for suspicion in judge(evidence(now, **known), RULES):
        assert START <= suspicion.since_us <= at(now)
        assert suspicion.message
        assert suspicion.cure


@given(now=times_s, known=anything, sign=st.sampled_from(["last_output", "last_progress"]))
def test_output_or_progress_now_clears_all_but_the_overrun(now, known, sign):
    assert set(rules_met(now, **{**known, sign: now})) <= {"overrun"}


# -- the watch -----------------------------------------------------------------------------------------------------


def silent(since_s=0):
    return Suspicion("silent", at(since_s), "quiet", "look", may_stop=True)


OVERRUN = Suspicion("overrun", at(0), "long", "wait", may_stop=False)


def walk(steps, *, stop=True, rules=RULES):
    """Kinds of notice at each (second, suspicions)."""
    watch, said = HangWatch(), []
    for second, suspicions in steps:
        watch, notices = watch.step(at(second), suspicions, rules, stop=stop)
        said.append([notice.kind for notice in notices])
    return said


def test_warn_once_then_stop_once():
    steps = [(0, []), (10, [silent()]), (11, [silent()]), (609, [silent()]), (610, [silent()]), (900, [silent()])]
    assert walk(steps) == [[], ["warn"], [], [], ["stop"], []]


def test_a_tenant_that_only_wants_warnings_is_never_stopped():
    assert walk([(10, [silent()]), (10_000, [silent()])], stop=False) == [["warn"], []]


def test_activity_clears_and_the_count_starts_again():
    steps = [(10, [silent()]), (600, []), (700, [silent(600)]), (1200, [silent(600)]), (1300, [silent(600)])]
    assert walk(steps) == [["warn"], ["clear"], ["warn"], [], ["stop"]]


def test_activity_between_two_looks_starts_again_too():
    assert walk([(10, [silent(0)]), (5000, [silent(3000)]), (5601, [silent(3000)])]) == [["warn"], ["warn"], ["stop"]]


def test_an_overrun_never_stops_a_run():
    assert walk([(0, [OVERRUN]), (10**6, [OVERRUN])]) == [["warn"], []]


def test_a_rule_that_says_stop_later_stops_what_was_warned_of_long_ago():
    watch, _ = HangWatch().step(at(0), [silent()], RULES, stop=False)
    _, notices = watch.step(at(700), [silent()], RULES, stop=True)
    assert [notice.kind for notice in notices] == ["stop"]


@given(
    steps=st.lists(st.tuples(st.integers(0, 500), st.booleans(), st.booleans(), st.booleans()), max_size=60),
    stop_after_s=st.integers(0, 1000),
)
def test_whatever_comes(steps, stop_after_s):
    rules = HangRules(stop_after_s=stop_after_s)
    watch, second, stops = HangWatch(), 0, 0
    warned_s: dict[str, int] = {}
    for passed, quiet, long, stop in steps:
        second += passed
        suspicions = [silent()] * quiet + [OVERRUN] * long
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


# -- the pulse -----------------------------------------------------------------------------------------------------

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
        # Busy ever since somebody looked: the lowest power seen says nothing about idling.
        (CardActivity(1.0, 610.0, 600.0, 700.0), False),
        (CardActivity(1.0, 150.0, 150.0, 700.0), True),
    ],
)
def test_when_a_card_spins(card, expected):
    assert spins(card, RULES) is expected


def beat(cards, seconds, *, every=10, pulse=None, first=0, **ratios):
    pulse = pulse or RunActivity()
    for second in range(first, first + seconds + 1, every):
        pulse = pulse.after(at(second), cards, RULES, **ratios)
    return pulse


def test_a_gang_that_waits_for_one_rank_spins():
    pulse = beat([STUCK, STUCK, IDLE], 1200)
    assert pulse.spinning_since_us == START
    assert [found.rule for found in judge(pulse.evidence(START), RULES)] == ["spinning"]


def test_one_card_at_work_means_that_nobody_is_stuck():
    assert beat([STUCK, WORKING], 1200).spinning_since_us is None


def test_idle_cards_make_a_run_silent_whatever_its_cpus_do():
    pulse = beat([IDLE], 1800, cpu_ratio=4.0)
    assert [found.rule for found in judge(pulse.evidence(START), RULES)] == ["silent"]
    assert judge(pulse.evidence(START, last_output_us=at(5)), RULES) == []


def test_a_run_without_cards_lives_by_its_cpus():
    assert judge(beat([], 1800, cpu_ratio=0.5).evidence(START), RULES) == []
    assert [found.rule for found in judge(beat([], 1800, cpu_ratio=0.0).evidence(START), RULES)] == ["silent"]


def test_a_busy_neighbour_does_not_hide_a_dead_run():
    assert judge(beat([WORKING], 1800).evidence(START), RULES) == []
    assert [found.rule for found in judge(beat([WORKING], 1800, gpu_ratio=0.0).evidence(START), RULES)] == ["silent"]


def test_what_is_not_known_counts_as_work():
    assert judge(beat([CardActivity(None)], 3600).evidence(START), RULES) == []


def test_time_without_samples_is_held_against_nobody():
    pulse = beat([IDLE], 1700)
    later = pulse.after(at(9000), [IDLE], RULES)
    assert later.watched_since_us == at(9000)
    assert judge(later.evidence(START), RULES) == []
    assert judge(pulse.after(at(100), [IDLE], RULES).evidence(START), RULES) == []  # the clock was set back


@given(
    st.lists(
        st.tuples(st.integers(-100, 200), st.sampled_from([STUCK, WORKING, IDLE, CardActivity(None)])), max_size=50
    )
)
def test_a_pulse_never_runs_ahead_of_its_samples(samples):
    pulse, second = RunActivity(), 0
    for passed, card in samples:
        second += passed
        pulse = pulse.after(at(second), [card], RULES)
        for time_us in (pulse.watched_since_us, pulse.last_activity_us, pulse.spinning_since_us):
            assert time_us is None or time_us <= at(second)
        if card is WORKING:
            assert pulse.last_activity_us == at(second)
            assert pulse.spinning_since_us is None


# -- crash loops ---------------------------------------------------------------------------------------------------


def test_fast_crashes_wait_longer_and_longer():
    assert [crash_backoff_s(n, 5.0) for n in (0, 1, 2, 3, 4)] == [0, 10, 20, 40, 80]
    assert crash_backoff_s(3, 60.0) == 0
    assert crash_backoff_s(10**9, 1.0) == 900


@given(attempts=st.integers(0, 10**6), run_s=st.floats(0, 1e6))
def test_the_wait_never_shrinks_with_attempts_and_is_bounded(attempts, run_s):
    assert 0 <= crash_backoff_s(attempts, run_s) <= crash_backoff_s(attempts + 1, run_s) <= 900
