"""How much of a card's memory a share is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.job import SLOT_MEMORY_BYTES, Share
from gpusquad.model.share_memory import memory_taken

GIB = 2**30
sizes = st.integers(0, 2**43)


def test_bytes_that_are_named_are_the_same_on_every_card():
    assert Share(10 * GIB, 250).memory_on(80 * GIB) == Share(10 * GIB, 250).memory_on(40 * GIB) == 10 * GIB


def test_without_bytes_it_is_as_large_a_part_as_of_the_sms():
    assert Share(sm_milli=250).memory_on(80 * GIB) == 20 * GIB


def test_a_part_of_the_memory_can_be_another_one():
    share = Share(sm_milli=800, memory_milli=100)
    assert share.memory_on(80 * GIB) == 8 * GIB
    assert Share(0, 0, memory_milli=200).memory_on(10 * GIB) == 2 * GIB
    assert not Share(sm_milli=1, memory_milli=1).is_slot_only


def test_bytes_that_are_named_later_take_the_place_of_a_part():
    assert replace(Share(sm_milli=500), memory_bytes=GIB) == Share(GIB, 500)


def test_a_place_has_no_part_and_something_is_counted_for_it():
    place = Share(sm_milli=1)
    assert place.is_slot_only
    assert [place.memory_on(size) for size in (80 * GIB, GIB // 2, 0)] == [SLOT_MEMORY_BYTES, GIB // 2, 0]


@given(sizes, st.lists(st.integers(2, 1000), min_size=1, max_size=20))
def test_parts_that_make_up_no_more_than_a_card_fit_it(card: int, parts: list[int]):
    """Whatever does not divide is lost to rounding, and never taken twice."""
    while sum(parts) > 1000:
        parts = parts[1:]
    assert sum(Share(sm_milli=part).memory_on(card) for part in parts) <= card


@given(st.builds(Share, st.just(0), st.integers(1, 1000)) | st.builds(Share, st.integers(1, 2**43)), sizes)
def test_many_cards_are_asked_as_one_is(share: Share, card: int):
    assert np.all(memory_taken(share, np.array([card])) == share.memory_on(card))
