"""Predicted ends of jobs that share a card."""

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


def time_sliced_rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
    return 1 / (1 + len(others))


def test_job_alone_ends_after_its_own_time():
    assert ends([(job("a"), 5.0)], "", time_sliced_rate) == [5.0]


def test_shorter_of_two_time_sliced_jobs_ends_first_and_the_other_continues_alone():
    assert ends([(job("a"), 1.0), (job("b"), 3.0)], "", time_sliced_rate) == pytest.approx([2.0, 4.0])


def test_ends_use_the_rate_of_each_job():
    table = {"a": 0.8, "b": 0.25}

    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        return table[own.app] if others else 1.0

    assert ends([(job("a"), 1.0), (job("b"), 1.0)], "", rate) == pytest.approx([1.25, 1.25 + 1 - 0.25 * 1.25])


def test_jobs_at_rate_zero_never_end():
    assert ends([(job("a"), 1.0), (job("b"), 1.0)], "", lambda own, others, gpu="": 0.0) == [inf, inf]


@given(st.lists(st.floats(0.01, 1e12), min_size=1, max_size=5))
def test_time_slicing_neither_loses_nor_adds_work(amounts: list[float]):
    end_times = ends([(job(f"j{i}"), amount) for i, amount in enumerate(amounts)], "", time_sliced_rate)
    assert max(end_times) == pytest.approx(sum(amounts))
    assert all(end >= amount * (1 - 1e-6) for end, amount in zip(end_times, amounts, strict=True))
    by_amount = [end for _, end in sorted(zip(amounts, end_times, strict=True))]
    assert by_amount == sorted(by_amount)


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=5), st.floats(1.0, 2.0))
def test_rates_above_one_do_not_shorten_a_job(amounts: list[float], ratio: float):
    end_times = ends(
        [(job(f"j{i}"), amount) for i, amount in enumerate(amounts)], "", lambda own, others, gpu="": ratio
    )
    assert end_times == pytest.approx(amounts)
