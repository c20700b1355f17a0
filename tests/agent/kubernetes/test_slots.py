"""Tests of device slots of cards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.agent.kubernetes.slots import (
    MAX_ID_CHARS,
    MAX_SLOTS,
    card_of,
    cards_of,
    distinct_cards,
    in_order,
    slots_of,
)
from gpusquad.model.errors import Invalid

UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"


def test_slot_ids_are_distinct_and_short_enough():
    slots = slots_of(UUID, MAX_SLOTS)
    assert len(set(slots)) == MAX_SLOTS
    assert max(map(len, slots)) <= MAX_ID_CHARS


@pytest.mark.parametrize(("card", "count"), [(UUID, 0), (UUID, MAX_SLOTS + 1), ("x" * MAX_ID_CHARS, 1)])
def test_invalid_slot_count_or_card_id_is_rejected(card: str, count: int):
    with pytest.raises(Invalid):
        slots_of(card, count)


@given(st.dictionaries(st.text(":abc-", min_size=1, max_size=20), st.integers(1, MAX_SLOTS), min_size=1), st.randoms())
def test_card_of_each_slot_is_found_in_any_order(cards: dict[str, int], random):
    slots = [slot for card, count in cards.items() for slot in slots_of(card, count)]
    assert cards_of(slots) == cards
    shuffled = list(slots)
    random.shuffle(shuffled)
    assert distinct_cards(in_order(shuffled)) == sorted(cards)
    for card, count in cards.items():
        assert [slot for slot in in_order(shuffled) if card_of(slot) == card] == slots_of(card, count)
