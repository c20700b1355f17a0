"""Tests of comparing messages without numbers, and of their length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.status.message import shortened, without_numbers


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("needs 8 idle cards, 6 are idle", "needs 8 idle cards, 7 are idle"),
        ("needs 8 GPUs", "needs 1 GPU"),
        ("needs 8 idle cards, 2 are idle", "needs 8 idle cards, 1 is idle"),
        ("promised in 2h05m, wait", "promised in 59m, wait"),
        ("promised in 14.8s, wait", "promised in 3d02h, wait"),
        ("from 14:05 UTC (in 25 min)", "from 14:07 UTC (in 1 h 3 min)"),
        ("behind 01hzx7k2m9qd3w5r8t1v4y6a0b, wait", "behind 3d190wtybaypsj955vh847ecdh, wait"),
        ("1,024 waiting", "999 waiting"),
    ],
)
def test_messages_that_differ_in_numbers_are_equal(first: str, second: str) -> None:
    assert without_numbers(first) == without_numbers(second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("needs 8 idle cards", "tenant nlp holds 8 of at most 8 GPUs"),
        ("would delay big", "would delay small"),
        ("waits for 3 pods", "waits for 3 nodes"),
    ],
)
def test_messages_that_differ_in_words_are_not_equal(first: str, second: str) -> None:
    assert without_numbers(first) != without_numbers(second)


@given(st.text(), st.integers(8, 2000))
def test_message_is_shortened_to_the_limit(text: str, max_bytes: int) -> None:
    assert len(shortened(text, max_bytes).encode()) <= max_bytes
