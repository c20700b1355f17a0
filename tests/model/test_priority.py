"""Priorities as names and integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.priority import (
    MAX_LEVEL,
    PRIORITY_CLASSES,
    card_level_of,
    is_priority,
    level_of,
    name_of,
    precedence,
    priority_text,
)


def test_classes_are_in_order():
    assert list(PRIORITY_CLASSES.values()) == sorted(PRIORITY_CLASSES.values())
    assert list(PRIORITY_CLASSES) == ["low", "normal", "high", "urgent"]


@given(st.integers(-MAX_LEVEL, MAX_LEVEL))
def test_text_of_an_integer_has_its_level(level: int):
    text = priority_text(level, "priority")
    assert (level_of(text), priority_text(str(level), "priority"), name_of(level)) == (level, text, text)
    assert is_priority(text)


@given(st.text() | st.integers() | st.floats() | st.none() | st.booleans())
def test_only_classes_and_integers_are_accepted(value: object):
    try:
        text = priority_text(value, "priority")
    except Invalid as error:
        assert (error.field, bool(error.cure)) == ("priority", True)  # noqa: PT017
    else:
        assert is_priority(text)
        assert abs(level_of(text)) <= MAX_LEVEL


@given(st.integers(-MAX_LEVEL, MAX_LEVEL), st.integers(-MAX_LEVEL, MAX_LEVEL))
def test_urgent_and_above_go_first_and_others_as_the_order_says(one: int, other: int):
    urgent = PRIORITY_CLASSES["urgent"]
    goes_first = precedence(name_of(one)) < precedence(name_of(other))
    assert goes_first == (one >= urgent and one > other)


@pytest.mark.parametrize(("level", "on_card"), [(-5, -1), (0, 0), (1, 1), (999_999, 1), (1_000_000, 2)])
def test_numbers_count_as_classes_on_shared_cards(level: int, on_card: int):
    assert card_level_of(level) == on_card


def test_job_keeps_one_text_for_each_priority():
    job = Job("a", (Role("main", 1, Request(1)),), priority="1000")
    assert (job.priority, job.priority_level, job.card_level) == ("high", 1000, 1)
    with pytest.raises(Invalid, match="neither a priority class nor an integer"):
        Job("a", (Role("main", 1, Request(1)),), priority="hihg")
