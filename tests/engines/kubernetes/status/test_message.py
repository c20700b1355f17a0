"""Which words are news, and how long they may be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.status.message import shortened, without_numbers


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("needs 8 idle cards, 6 are idle", "needs 8 idle cards, 7 are idle"),
        ("needs 8 GPUs", "needs 1 GPU"),
        ("promised in 2h05m, wait", "promised in 59m, wait"),
        ("promised in 14.8s, wait", "promised in 3d02h, wait"),
        ("from 14:05 UTC (in 25 min)", "from 14:07 UTC (in 1 h 3 min)"),
        ("behind 01hzx7k2m9qd3w5r8t1v4y6a0b, wait", "behind 3d190wtybaypsj955vh847ecdh, wait"),
        ("1,024 waiting", "999 waiting"),
    ],
)
def test_numbers_that_tick_are_no_news(one: str, other: str) -> None:
    assert without_numbers(one) == without_numbers(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("needs 8 idle cards", "tenant nlp holds 8 of at most 8 GPUs"),
        ("would delay big", "would delay small"),
        ("waits for 3 pods", "waits for 3 nodes"),
    ],
)
def test_words_are_news(one: str, other: str) -> None:
    assert without_numbers(one) != without_numbers(other)


@given(st.text(), st.integers(8, 2000))
def test_no_message_is_too_long(text: str, most: int) -> None:
    assert len(shortened(text, most).encode()) <= most
