"""Transitions between job states."""

from itertools import product

import pytest

from gpusquad.core.transitions import FINAL, NEXT, JobState, WrongTransition, advance

S = JobState
STATE_SEQUENCES = [
    [S.HELD, S.PENDING, S.STARTING, S.RUNNING, S.SUCCEEDED],
    [S.PENDING, S.STARTING, S.RUNNING, S.STOPPING, S.TIMED_OUT],
    [S.PENDING, S.STARTING, S.RUNNING, S.STOPPING, S.CANCELLED],
    [S.PENDING, S.STARTING, S.RUNNING, S.PREEMPTING, S.PENDING, S.STARTING, S.RUNNING, S.FAILED],
    [S.PENDING, S.STARTING, S.PREEMPTING, S.PENDING, S.CANCELLED],
    [S.PENDING, S.STARTING, S.RUNNING, S.LOST, S.RUNNING, S.LOST, S.PENDING],
    [S.PENDING, S.HELD, S.CANCELLED],
    [S.FAILED],  # refused at submission
]


@pytest.mark.parametrize("states", STATE_SEQUENCES, ids=" ".join)
def test_usual_state_sequences_are_allowed(states: list[JobState]) -> None:
    state = None
    for next_state in states:
        state = advance("j", state, next_state)
    assert state is states[-1]


def test_every_state_has_a_row_and_is_reachable() -> None:
    assert set(NEXT) == {None, *JobState}
    reached, todo = set(), [None]
    while todo:
        for next_state in NEXT[todo.pop()] - reached:
            reached.add(next_state)
            todo.append(next_state)
    assert reached == set(JobState)


def test_every_state_can_reach_a_final_state() -> None:
    ends = set(FINAL)
    while reachable := {s for s in JobState if s not in ends and NEXT[s] & ends}:
        ends |= reachable
    assert ends == set(JobState)


@pytest.mark.parametrize("final", sorted(FINAL))
def test_final_state_has_no_next_state(final: JobState) -> None:
    for next_state in JobState:
        with pytest.raises(WrongTransition, match=f"job j: {final} -> {next_state} is not allowed"):
            advance("j", final, next_state)


def test_transition_outside_the_table_is_refused() -> None:
    for state, next_state in product([None, *JobState], JobState):
        if next_state in NEXT[state]:
            assert advance("j", state, next_state) is next_state
        else:
            with pytest.raises(WrongTransition):
                advance("j", state, next_state)


def test_running_is_reached_only_from_starting() -> None:
    with pytest.raises(WrongTransition, match="job j: pending -> running"):
        advance("j", S.PENDING, S.RUNNING)
    with pytest.raises(WrongTransition, match="job j: nothing -> running"):
        advance("j", None, S.RUNNING)
