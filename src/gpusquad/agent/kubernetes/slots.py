"""Slots: the devices that the kubelet counts. Each card has the same number of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gpusquad.model.errors import Invalid

MOST_SLOTS = 48
LONGEST_ID = 63
"""Characters that the kubelet allows."""
_BETWEEN = "::"


def slot_id(card: str, slot: int) -> str:
    return f"{card}{_BETWEEN}{slot}"


def card_of(slot: str) -> str:
    """The card that a slot is on."""
    return slot.rpartition(_BETWEEN)[0]


def slots_of(card: str, count: int) -> list[str]:
    """All slots of a card, in order."""
    if not 1 <= count <= MOST_SLOTS:
        raise Invalid("slots", f"{count} is not a number of slots from 1 to {MOST_SLOTS}")
    found = [slot_id(card, slot) for slot in range(count)]
    if len(found[-1]) > LONGEST_ID:
        raise Invalid("card", f"the id {card!r} is too long for a device of the kubelet")
    return found


def cards_of(slots: Iterable[str]) -> Counter[str]:
    """How many of these slots each card has."""
    return Counter(card_of(slot) for slot in slots)


def in_order(slots: Iterable[str]) -> list[str]:
    """By card, then by number; the kubelet names them in any order."""
    return sorted(slots, key=_place)


def distinct_cards(slots: Sequence[str]) -> list[str]:
    """Each card once, in the order of its first slot."""
    return list(dict.fromkeys(card_of(slot) for slot in slots))


def _place(slot: str) -> tuple[str, int, str]:
    card, _, number = slot.rpartition(_BETWEEN)
    return (card, int(number) if number.isdigit() else 0, slot)
