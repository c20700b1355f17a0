"""Automatic modes: the rule that chooses a mode from the goals present."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import UNKNOWN, SchedulerState
from gpusquad.model.cluster import grid
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Slo
from gpusquad.modes import choosable, load_mode
from gpusquad.modes.choice import DAY_US, ModeChoice, ModeRule, ModeRules, first_choice, review
from gpusquad.modes.goals import Goals, goals_of
from tests.strategies import gang

MIN_US, HOUR_US = 60_000_000, 3_600_000_000
RULES = ModeRules(
    (ModeRule("deadlines", "urgent first", 0.2, 0.1), ModeRule("fairness", "even", 2.0, 1.5)), "plain",
    settle_us=10 * MIN_US, leave_us=HOUR_US, dwell_us=4 * HOUR_US, changes_per_day=2,
)  # fmt: skip
PLAIN = Goals(pending=10)
LATE = Goals(pending=10, deadlines=5)
UNEQUAL = Goals(pending=10, contenders=2, usage_ratio=3.0, most_used="b", least_used="a")


def play(*steps: tuple[int, Goals], rules: ModeRules = RULES, start: Goals = PLAIN) -> ModeChoice:
    choice = first_choice(rules, start, 0)
    for at_us, goals in steps:
        choice = review(rules, choice, goals, at_us)
    return choice


# -- the rule ------------------------------------------------------------------------------------------------------


def test_first_choice_follows_the_goals_at_once():
    assert first_choice(RULES, LATE, 7) == ModeChoice("urgent first", LATE.explain("deadlines"), 7)
    assert first_choice(RULES, UNEQUAL, 7).mode == "even"
    assert first_choice(RULES, PLAIN, 7).mode == "plain"


def test_first_choice_is_the_default_when_the_cluster_is_empty():
    assert first_choice(RULES, Goals(running=3, deadlines=3), 7) == ModeChoice("plain", "no job is pending", 7)


def test_first_rule_decides_when_two_goals_are_present():
    assert first_choice(RULES, replace(UNEQUAL, deadlines=5), 0).mode == "urgent first"


def test_one_tenant_is_never_unequal():
    assert first_choice(RULES, replace(UNEQUAL, contenders=1), 0).mode == "plain"


def test_mode_changes_only_after_the_goal_was_present_for_the_settle_time():
    waiting = play((MIN_US, LATE), (10 * MIN_US, LATE))
    assert (waiting.mode, waiting.wanted, waiting.due_us) == ("plain", "urgent first", 11 * MIN_US)
    changed = play((MIN_US, LATE), (11 * MIN_US, LATE))
    assert (changed.mode, changed.since_us, changed.changes_us) == ("urgent first", 11 * MIN_US, (11 * MIN_US,))
    assert "5 of 10 pending and running jobs" in changed.why


def test_settle_time_starts_again_when_the_goal_was_absent():
    assert play((MIN_US, LATE), (5 * MIN_US, PLAIN), (6 * MIN_US, LATE), (15 * MIN_US, LATE)).mode == "plain"


def test_mode_stays_while_the_goal_is_between_the_thresholds():
    few = Goals(pending=100, deadlines=15)
    assert first_choice(RULES, few, 0).mode == "plain"
    assert play((10 * HOUR_US, few), (20 * HOUR_US, few), start=LATE).mode == "urgent first"
    assert play((10 * HOUR_US, PLAIN), (20 * HOUR_US, PLAIN), start=LATE).mode == "plain"


def test_default_returns_only_after_the_goals_were_absent_for_the_leave_time():
    steps = [(5 * HOUR_US, PLAIN), (6 * HOUR_US - 1, PLAIN)]
    stays = play(*steps, start=LATE)
    assert (stays.mode, stays.wanted, stays.due_us) == ("urgent first", "plain", 6 * HOUR_US)
    assert play(*steps, (6 * HOUR_US, PLAIN), start=LATE).mode == "plain"
    assert play(*steps, (6 * HOUR_US, LATE), (7 * HOUR_US - 1, PLAIN), start=LATE).mode == "urgent first"


def test_mode_stays_for_the_dwell_time_after_a_change():
    steps = [(0, LATE), (10 * MIN_US, LATE), (11 * MIN_US, PLAIN), (4 * HOUR_US, PLAIN)]
    stays = play(*steps)
    assert (stays.mode, stays.wanted, stays.due_us) == ("urgent first", "plain", 10 * MIN_US + 4 * HOUR_US)
    assert play(*steps, (10 * MIN_US + 4 * HOUR_US, PLAIN)).mode == "plain"


def test_third_change_waits_until_the_first_is_a_day_old():
    steps = [(0, LATE), (10 * MIN_US, LATE), (5 * HOUR_US, PLAIN), (6 * HOUR_US, PLAIN), (12 * HOUR_US, LATE)]
    stays = play(*steps, (23 * HOUR_US, LATE))
    assert (stays.mode, len(stays.changes_us), stays.due_us) == ("plain", 2, 10 * MIN_US + DAY_US)
    assert play(*steps, (10 * MIN_US + DAY_US, LATE)).mode == "urgent first"


def test_nothing_changes_while_no_job_is_pending():
    assert play((0, LATE), (HOUR_US, replace(LATE, pending=0))).mode == "plain"
    assert play((10 * HOUR_US, Goals()), (20 * HOUR_US, Goals()), start=LATE).mode == "urgent first"


GOALS = st.builds(
    Goals, pending=st.integers(0, 20), running=st.integers(0, 20), deadlines=st.integers(0, 10),
    contenders=st.integers(0, 3), usage_ratio=st.floats(1.0, 5.0),
)  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 3 * HOUR_US), GOALS), max_size=60))
def test_at_most_two_changes_in_any_day_whatever_the_goals(steps):
    now_us, choice, changes = 0, first_choice(RULES, PLAIN, 0), []
    for passed_us, goals in steps:
        now_us += passed_us
        after = review(RULES, choice, goals, now_us)
        assert ModeChoice.from_dict(after.to_dict()) == after
        if after.mode != choice.mode:
            changes.append(now_us)
            assert after.since_us == now_us
        choice = after
    assert all(later - first >= DAY_US for first, later in zip(changes, changes[2:], strict=False))
    assert all(later - first >= RULES.dwell_us for first, later in pairwise(changes))


# -- the view ------------------------------------------------------------------------------------------------------


def state_of(*jobs) -> SchedulerState:
    state = SchedulerState(grid("1x8"), make_policies())
    for job in jobs:
        state.enqueue(job, UNKNOWN)
    return state


def job(name: str, tenant: str = "a", **slo):
    made = gang(name, 1, 10).job
    return replace(made, tenant=tenant, slo=Slo(**slo) if slo else None)


def test_goals_of_an_empty_cluster_are_none():
    assert goals_of(state_of(), 0) == Goals()


def test_goals_count_open_deadlines_and_services():
    state = state_of(
        job("early", deadline_us=100), job("open", deadline_us=900), job("service", latency_us=1), job("x")
    )
    goals = goals_of(state, 500)
    assert (goals.jobs, goals.deadlines, goals.services, goals.contenders) == (4, 1, 1, 1)


def test_usage_is_compared_by_weight_among_tenants_with_pending_jobs():
    state = state_of(job("one", "a"), job("two", "b"))
    state.accounts.of("b").decayed_gpu_us = 9 * HOUR_US  # 9 GPU hours, and one is added to both
    state.accounts.of("idle").decayed_gpu_us = 1000 * HOUR_US
    goals = goals_of(state, 0)
    assert (goals.usage_ratio, goals.most_used, goals.least_used) == (10.0, "b", "a")
    assert "2 tenants have pending jobs, and b used 10.0 times as much as a recently" in goals.explain("fairness")


# -- the file ------------------------------------------------------------------------------------------------------


def test_built_in_automatic_mode_chooses_among_built_in_modes():
    auto = load_mode("auto")
    assert auto.rules is not None
    assert auto.rules.changes_per_day <= 2
    assert set(choosable(auto)) == set(auto.rules.modes)
    assert auto.order == load_mode(auto.rules.otherwise).order


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[choose]", "choose.otherwise: is missing"),
        ('order = "fifo"\n[choose]\notherwise = "fifo"', "order: is not a known field"),
        ('[choose]\notherwise = "nowhere"', "'nowhere' does not exist"),
        ('[choose]\notherwise = "auto"', "'auto' is an automatic mode itself"),
        ('[choose]\notherwise = "fifo"\n[[choose.rules]]\ngoal = "speed"\nmode = "jct"', "rules[0].goal: 'speed'"),
        ('[choose]\notherwise = "fifo"\n[[choose.rules]]\ngoal = "services"\nmode = "slo"\nleast = 0.1\nkeep = 0.2',
         "rules[0].keep: is greater than least"),
        ('[choose]\notherwise = "fifo"\nchanges_per_day = 0', "changes_per_day"),
    ],
)  # fmt: skip
def test_invalid_automatic_mode_is_refused_with_its_field(tmp_path, text, error):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(Invalid) as caught:
        load_mode(path)
    assert error in str(caught.value)
