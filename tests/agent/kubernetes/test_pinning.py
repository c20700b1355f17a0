"""Tests of choosing device slots for pinned and unpinned containers."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.agent.kubernetes.pinning import (
    AllocationRefused,
    CardOccupancy,
    PinnedCards,
    card_uses,
    pinned_cards_of,
    slots_anywhere,
    slots_on,
)
from gpusquad.agent.kubernetes.pods import Container
from gpusquad.agent.kubernetes.slots import cards_of, slots_of
from tests.agent.kubernetes.fake_kubelet import pod

CARDS = ["A", "B", "C", "D"]
MAIN = Container("main", 2)
some_slots = st.sets(st.sampled_from([slot for card in CARDS for slot in slots_of(card, 3)]))


def test_pinned_cards_are_those_of_the_container():
    target = pod("p", [MAIN], {"main": ["B", "A"], "other": ["C"]})
    assert pinned_cards_of(target, MAIN, CARDS) == PinnedCards(("B", "A"), 2)
    assert pinned_cards_of(pod("p", [MAIN]), MAIN, CARDS) is None


def test_init_container_uses_the_cards_of_the_next_main_container():
    first, helper, second, main = (
        Container("first", 1, True), Container("helper", 1), Container("second", 1, True), MAIN,
    )  # fmt: skip
    target = pod("p", [first, helper, second, main], {"helper": ["D"], "main": ["B", "A"]})
    assert pinned_cards_of(target, first, CARDS) == PinnedCards(("D",), 1)
    assert pinned_cards_of(target, second, CARDS) == PinnedCards(("B", "A"), 1)
    own_pin = pod("p", [first, main], {"first": ["C"], "main": ["C", "A"]})
    assert pinned_cards_of(own_pin, first, CARDS) == PinnedCards(("C",), 1)


@pytest.mark.parametrize(
    ("containers", "pin", "message"),
    [
        ([MAIN], {"main": ["A"]}, "requests 2 cards, but the annotation gpusquad.io/cards names 1"),
        ([MAIN], {"main": ["A", "B", "C"]}, "names 3"),
        ([MAIN], {"other": ["A", "B"]}, "names no cards for container 'main'"),
        ([MAIN], {"main": ["A", "X"]}, "no card 'X'"),
        ([Container("first", 3, True), MAIN], {"main": ["A", "B"]}, "'first' requests 3 cards"),
        ([Container("first", 1, True)], {"main": ["A", "B"]}, "names no cards for container 'first'"),
    ],
)
def test_pin_that_cannot_be_met_is_refused(containers: list[Container], pin: dict[str, list[str]], message: str):
    with pytest.raises(AllocationRefused, match=message):
        pinned_cards_of(pod("p", containers, pin), containers[0], CARDS)


def test_unreadable_pin_is_refused():
    with pytest.raises(AllocationRefused, match="cannot be read"):
        pinned_cards_of(pod("p", [MAIN], pin_error="it cannot be read"), MAIN, CARDS)


@given(st.lists(st.sampled_from(CARDS), min_size=1, max_size=4), some_slots, st.data())
def test_slots_are_free_slots_of_the_pinned_cards(cards: list[str], available: set[str], data: st.DataObject):
    pinned = PinnedCards(tuple(cards), data.draw(st.integers(1, len(cards))))
    must = data.draw(
        st.sets(st.sampled_from(sorted(available)), max_size=pinned.count) if available else st.just(set())
    )
    try:
        slots = slots_on(pinned, available, must)
    except AllocationRefused:
        free = sum((cards_of(available) & Counter(cards)).values())
        assert free < pinned.count or not cards_of(must) <= Counter(cards)
        return
    assert pinned.matches(slots)
    assert must <= set(slots) <= available


@given(some_slots, st.data())
def test_unpinned_container_gets_cards_pinned_by_others_last(available: set[str], data: st.DataObject):
    uses = data.draw(st.dictionaries(st.sampled_from(CARDS), st.builds(CardOccupancy, st.booleans(), st.booleans())))
    count = data.draw(st.integers(1, 6))
    if count > len(available):
        with pytest.raises(AllocationRefused):
            slots_anywhere(count, available, (), uses, CARDS)
        return
    slots = slots_anywhere(count, available, (), uses, CARDS)
    assert len(set(slots)) == count
    assert set(slots) <= available
    pinned = {card for card, use in uses.items() if use.is_pinned}
    if cards_of(slots).keys() & pinned:
        assert cards_of(slot for slot in available - set(slots)).keys() <= pinned


def test_unpinned_container_gets_the_emptiest_cards_first():
    free = [slot for card in CARDS for slot in slots_of(card, 2)]
    uses = {"A": CardOccupancy(is_held=True, used=1), "B": CardOccupancy(used=2), "C": CardOccupancy(used=1)}
    chosen = [next(iter(cards_of(slots_anywhere(1, [s for s in free if s[0] in left], (), uses, CARDS))))
              for left in ("ABCD", "ABC", "AB", "A")]  # fmt: skip
    assert chosen == ["D", "C", "B", "A"]
    assert cards_of(slots_anywhere(3, free, (), uses, CARDS)) == Counter("DCB")
    assert slots_anywhere(2, free, ["A::1"], uses, CARDS) == ["A::1", "D::0"]


def test_card_uses_count_slots_and_pins():
    pods = [
        pod("runs", [MAIN], {"main": ["A"]}), pod("waits", [MAIN], {"main": ["B"]}), pod("free", [MAIN]),
        pod("over", [MAIN], {"main": ["D"]}, has_ended=True),
    ]  # fmt: skip
    assert card_uses(pods, {"default/runs": ["A::0"], "default/free": ["A::1", "C::0"], "default/waits": []}) == {
        "A": CardOccupancy(is_held=True, used=2), "B": CardOccupancy(is_pinned=True), "C": CardOccupancy(used=1),
    }  # fmt: skip
