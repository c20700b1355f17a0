"""Which card somebody means."""

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


ONE = cards(n0=["GPU-8f3a", "GPU-8f77", "GPU-0001"])
TWO = cards(n0=["GPU-8f3a"], n1=["GPU-8f77", "GPU-0001"])
MANY = cards(n0=[f"n0/{at}" for at in range(12)])


@pytest.mark.parametrize(
    ("ref", "known", "card"),
    [
        ("GPU-8f3a", ONE, "GPU-8f3a"),
        ("gpu-8F3", ONE, "GPU-8f3a"),
        ("8f7", ONE, "GPU-8f77"),
        ("0", ONE, "GPU-8f3a"),
        ("n0/2", ONE, "GPU-0001"),
        ("0001", ONE, "GPU-0001"),
        ("n1/0", TWO, "GPU-8f77"),
        ("1", TWO, "GPU-0001"),
        ("n0/1", MANY, "n0/1"),
        ("11", MANY, "n0/11"),
        ("GPU-1", cards(n0=["GPU-1.1of2", "GPU-1.2of2"]), "GPU-1.1of2"),
    ],
)
def test_found(ref: str, known: list[CardStatus], card: str):
    assert card_named(ref, known).id == card


@pytest.mark.parametrize("ref", ["3", "n0/3", "n9/0", "GPU-9", "x", "", "-1", "٣", "n0/", "99999999999999999999"])
def test_not_found(ref: str):
    with pytest.raises(NotFound) as caught:
        card_named(ref, ONE)
    assert caught.value.cure


def test_the_place_of_a_card_that_is_not_there_is_no_beginning():
    with pytest.raises(NotFound):
        card_named("n0/1", [card for card in MANY if card.id != "n0/1"])


@pytest.mark.parametrize(
    ("ref", "known", "cure"),
    [("0", TWO, "n0/0"), ("GPU-8f", TWO, "a longer prefix"), ("n0", MANY, "a longer prefix")],
)
def test_several_may_be_meant(ref: str, known: list[CardStatus], cure: str):
    with pytest.raises(Conflict) as caught:
        card_named(ref, known)
    assert cure in caught.value.cure


@given(st.text(max_size=12), st.sampled_from([ONE, TWO, MANY]))
def test_whatever_is_asked_one_card_or_a_plain_no(ref: str, known: list[CardStatus]):
    with contextlib.suppress(NotFound, Conflict):
        assert card_named(ref, known) in known
