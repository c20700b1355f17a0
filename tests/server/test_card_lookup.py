"""Finding a card by id, prefix, index or node and index."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.server.answers import CardStatus
from gpusquad.server.card_lookup import card_named
from gpusquad.server.errors import Conflict, NotFound


def cards(**nodes: list[str]) -> list[CardStatus]:
    return [CardStatus(card, node, at, "H200", 1, "free") for node, ids in nodes.items() for at, card in enumerate(ids)]


ONE_NODE = cards(n0=["GPU-8f3a", "GPU-8f77", "GPU-0001"])
TWO_NODES = cards(n0=["GPU-8f3a"], n1=["GPU-8f77", "GPU-0001"])
MANY_CARDS = cards(n0=[f"n0/{at}" for at in range(12)])


@pytest.mark.parametrize(
    ("ref", "known", "card"),
    [
        ("GPU-8f3a", ONE_NODE, "GPU-8f3a"),
        ("gpu-8F3", ONE_NODE, "GPU-8f3a"),
        ("8f7", ONE_NODE, "GPU-8f77"),
        ("0", ONE_NODE, "GPU-8f3a"),
        ("n0/2", ONE_NODE, "GPU-0001"),
        ("0001", ONE_NODE, "GPU-0001"),
        ("n1/0", TWO_NODES, "GPU-8f77"),
        ("1", TWO_NODES, "GPU-0001"),
        ("n0/1", MANY_CARDS, "n0/1"),
        ("11", MANY_CARDS, "n0/11"),
        ("GPU-1", cards(n0=["GPU-1.1of2", "GPU-1.2of2"]), "GPU-1.1of2"),
    ],
)
def test_card_is_found_by_reference(ref: str, known: list[CardStatus], card: str):
    assert card_named(ref, known).id == card


@pytest.mark.parametrize("ref", ["3", "n0/3", "n9/0", "GPU-9", "x", "", "-1", "٣", "n0/", "99999999999999999999"])
def test_unknown_reference_is_not_found(ref: str):
    with pytest.raises(NotFound) as caught:
        card_named(ref, ONE_NODE)
    assert caught.value.cure


def test_position_of_a_missing_card_is_not_used_as_a_prefix():
    with pytest.raises(NotFound):
        card_named("n0/1", [card for card in MANY_CARDS if card.id != "n0/1"])


@pytest.mark.parametrize(
    ("ref", "known", "cure"),
    [("0", TWO_NODES, "n0/0"), ("GPU-8f", TWO_NODES, "a longer prefix"), ("n0", MANY_CARDS, "a longer prefix")],
)
def test_ambiguous_reference_is_a_conflict_with_a_cure(ref: str, known: list[CardStatus], cure: str):
    with pytest.raises(Conflict) as caught:
        card_named(ref, known)
    assert cure in caught.value.cure


@given(st.text(max_size=12), st.sampled_from([ONE_NODE, TWO_NODES, MANY_CARDS]))
def test_any_text_finds_a_card_or_is_refused(ref: str, known: list[CardStatus]):
    with contextlib.suppress(NotFound, Conflict):
        assert card_named(ref, known) in known
