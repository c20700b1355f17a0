"""Whose estimator runs next."""

from __future__ import annotations

import pytest

from gpusquad.server.services.jobs.estimator_turns import AT_ONCE, EstimatorTurns


def served(turns: EstimatorTurns, running: list[str], waiting: list[str]) -> list[str]:
    """The users whose estimators start, in order, while none ends."""
    started = []
    while turn := turns.next(running, [[user] for user in waiting]):
        assert waiting.pop(turn.place) == turn.user
        running.append(turn.user)
        started.append(turn.user)
    return started


@pytest.mark.parametrize(
    ("waiting", "started"),
    [
        ("aaaaa", "aa"),
        ("aaab", "aba"),
        ("aaabbb", "aba"),
        ("aaabbbccc", "abc"),
        ("aaabbbcccddd", "abcd"),
    ],
)
def test_second_estimator_of_a_user_leaves_a_slot_free(waiting: str, started: str) -> None:
    assert served(EstimatorTurns(), [], list(waiting)) == list(started)


def test_users_take_turns() -> None:
    turns, running, waiting = EstimatorTurns(), ["x"] * AT_ONCE, list("aaabbbc")
    order = []
    while waiting:
        running.pop()
        order += served(turns, running, waiting)
        running = ["x"] * AT_ONCE
    assert order == list("abcabab")


def test_estimator_of_several_users_runs_in_the_turn_of_any() -> None:
    turn = EstimatorTurns().next(["a", "a"], [["a", "b"]])
    assert turn is not None
    assert turn.user == "b"
