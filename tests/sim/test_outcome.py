"""Tests for the compact cards of a span."""

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.sim.outcome import CardIndexes


@given(st.lists(st.integers(0, 12), max_size=30))
def test_card_indexes_are_the_sequence_they_were_made_from(cards: list[int]) -> None:
    kept = CardIndexes(cards)
    assert list(kept) == cards
    assert len(kept) == len(cards)
    assert kept == tuple(cards)
    assert kept == CardIndexes(cards)
    assert hash(kept) == hash(CardIndexes(cards))
    assert kept != (*cards, 0)
    assert [kept[index] for index in range(len(cards))] == cards
