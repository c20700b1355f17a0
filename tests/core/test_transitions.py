"""The table of job states."""

from itertools import product

import pytest

from gpusquad.core.transitions import FINAL, NEXT, JobState, WrongTransition, advance

S = JobState
LIVES = [
    [S.HELD, S.PENDING, S.STARTING, S.RUNNING, S.SUCCEEDED],
    [S.PENDING, S.STARTING, S.RUNNING, S.STOPPING, S.TIMED_OUT],
    [S.PENDING, S.STARTING, S.RUNNING, S.STOPPING, S.CANCELLED],
    [S.PENDING, S.STARTING, S.RUNNING, S.PREEMPTING, S.PENDING, S.STARTING, S.RUNNING, S.FAILED],
    [S.PENDING, S.STARTING, S.PREEMPTING, S.PENDING, S.CANCELLED],
    [S.PENDING, S.STARTING, S.RUNNING, S.LOST, S.RUNNING, S.LOST, S.PENDING],
    [S.PENDING, S.HELD, S.CANCELLED],
    [S.FAILED],  # refused at submission
]


@pytest.mark.parametrize("life", LIVES, ids=" ".join)
def test_lives_that_jobs_lead(life: list[JobState]) -> None:
    now = None
    for then in life:
        now = advance("j", now, then)
    assert now is life[-1]


def test_every_state_has_a_row_and_can_be_reached() -> None:
    assert set(NEXT) == {None, *JobState}
    reached, todo = set(), [None]
    while todo:
        for then in NEXT[todo.pop()] - reached:
            reached.add(then)
            todo.append(then)
    assert reached == set(JobState)


def test_every_state_can_still_end() -> None:
    ends = set(FINAL)
    while more := {s for s in JobState if s not in ends and NEXT[s] & ends}:
        ends |= more
    assert ends == set(JobState)


@pytest.mark.parametrize("final", sorted(FINAL))
def test_nothing_follows_an_end(final: JobState) -> None:
    for then in JobState:
        with pytest.raises(WrongTransition, match=f"job j: {final} -> {then} is not allowed"):
            advance("j", final, then)


def test_what_the_table_does_not_name_is_refused() -> None:
    for now, then in product([None, *JobState], JobState):
        if then in NEXT[now]:
            assert advance("j", now, then) is then
        else:
            with pytest.raises(WrongTransition):
                advance("j", now, then)


def test_running_only_through_starting() -> None:
    with pytest.raises(WrongTransition, match="job j: pending -> running"):
        advance("j", S.PENDING, S.RUNNING)
    with pytest.raises(WrongTransition, match="job j: nothing -> running"):
        advance("j", None, S.RUNNING)
