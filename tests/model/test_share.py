"""Memory of a share on a card."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.job import SLOT_MEMORY_BYTES, Share
from gpusquad.model.share_memory import memory_taken

GIB = 2**30
sizes = st.integers(0, 2**43)


def test_memory_in_bytes_is_the_same_on_every_card():
    assert Share(10 * GIB, 250).memory_on(80 * GIB) == Share(10 * GIB, 250).memory_on(40 * GIB) == 10 * GIB


def test_share_without_memory_has_the_same_fraction_as_sm():
    assert Share(sm_milli=250).memory_on(80 * GIB) == 20 * GIB


def test_memory_fraction_may_differ_from_the_sm_fraction():
    share = Share(sm_milli=800, memory_milli=100)
    assert share.memory_on(80 * GIB) == 8 * GIB
    assert Share(0, 0, memory_milli=200).memory_on(10 * GIB) == 2 * GIB
    assert not Share(sm_milli=1, memory_milli=1).is_slot_only


def test_memory_in_bytes_replaces_a_fraction():
    assert replace(Share(sm_milli=500), memory_bytes=GIB) == Share(GIB, 500)


def test_device_slot_is_charged_a_fixed_amount_of_memory():
    slot = Share(sm_milli=1)
    assert slot.is_slot_only
    assert [slot.memory_on(size) for size in (80 * GIB, GIB // 2, 0)] == [SLOT_MEMORY_BYTES, GIB // 2, 0]


@given(sizes, st.lists(st.integers(2, 1000), min_size=1, max_size=20))
def test_fractions_up_to_one_card_fit_its_memory(card: int, fractions: list[int]):
    """The remainder is lost to rounding and never assigned twice."""
    while sum(fractions) > 1000:
        fractions = fractions[1:]
    assert sum(Share(sm_milli=milli).memory_on(card) for milli in fractions) <= card


@given(st.builds(Share, st.just(0), st.integers(1, 1000)) | st.builds(Share, st.integers(1, 2**43)), sizes)
def test_memory_taken_of_arrays_matches_memory_on(share: Share, card: int):
    assert np.all(memory_taken(share, np.array([card])) == share.memory_on(card))
