"""Device slots: the devices that the kubelet counts. Each card has the same number of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gpusquad.model.errors import Invalid

MAX_SLOTS = 48
MAX_ID_CHARS = 63
"""Limit of the kubelet."""
_SEPARATOR = "::"


def slot_id(card: str, slot: int) -> str:
    return f"{card}{_SEPARATOR}{slot}"


def card_of(slot: str) -> str:
    """The card that a slot is on."""
    return slot.rpartition(_SEPARATOR)[0]


def slots_of(card: str, count: int) -> list[str]:
    """All slots of a card, in order."""
    if not 1 <= count <= MAX_SLOTS:
        raise Invalid("slots", f"{count} is not a number of slots from 1 to {MAX_SLOTS}")
    found = [slot_id(card, slot) for slot in range(count)]
    if len(found[-1]) > MAX_ID_CHARS:
        raise Invalid("card", f"the id {card!r} is too long for a kubelet device")
    return found


def cards_of(slots: Iterable[str]) -> Counter[str]:
    """Number of these slots on each card."""
    return Counter(card_of(slot) for slot in slots)


def in_order(slots: Iterable[str]) -> list[str]:
    """By card, then by number, because the kubelet lists them in any order."""
    return sorted(slots, key=_place)


def distinct_cards(slots: Sequence[str]) -> list[str]:
    """Each card once, in the order of its first slot."""
    return list(dict.fromkeys(card_of(slot) for slot in slots))


def _place(slot: str) -> tuple[str, int, str]:
    card, _, number = slot.rpartition(_SEPARATOR)
    return (card, int(number) if number.isdigit() else 0, slot)
