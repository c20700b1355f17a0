"""When jobs that share a card end."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.job import Job, Request, Role, Share
from gpusquad.policies.place._completion import ends


def job(app: str) -> Job:
    return Job(app, (Role("w", 1, Request(share=Share(sm_milli=500))),), app=app)


def halves(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
    return 1 / (1 + len(others))


def test_alone_it_takes_what_it_takes():
    assert ends([(job("a"), 5.0)], "", halves) == [5.0]


def test_two_that_take_turns_end_late_and_the_longer_one_runs_on_alone():
    assert ends([(job("a"), 1.0), (job("b"), 3.0)], "", halves) == pytest.approx([2.0, 4.0])


def test_speeds_may_differ():
    table = {"a": 0.8, "b": 0.25}

    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        return table[own.app] if others else 1.0

    assert ends([(job("a"), 1.0), (job("b"), 1.0)], "", rate) == pytest.approx([1.25, 1.25 + 1 - 0.25 * 1.25])


def test_whoever_does_not_fit_never_ends():
    assert ends([(job("a"), 1.0), (job("b"), 1.0)], "", lambda own, others, gpu="": 0.0) == [inf, inf]


@given(st.lists(st.floats(0.01, 1e12), min_size=1, max_size=5))
def test_no_work_is_lost_or_won_by_taking_turns(amounts: list[float]):
    found = ends([(job(f"j{i}"), amount) for i, amount in enumerate(amounts)], "", halves)
    assert max(found) == pytest.approx(sum(amounts))
    assert all(end >= amount * (1 - 1e-6) for end, amount in zip(found, amounts, strict=True))
    by_amount = [end for _, end in sorted(zip(amounts, found, strict=True))]
    assert by_amount == sorted(by_amount)


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=5), st.floats(1.0, 2.0))
def test_neighbours_make_nobody_faster(amounts: list[float], said: float):
    found = ends([(job(f"j{i}"), amount) for i, amount in enumerate(amounts)], "", lambda own, others, gpu="": said)
    assert found == pytest.approx(amounts)
