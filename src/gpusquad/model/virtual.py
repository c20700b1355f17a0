"""Virtual cards: one physical card shown as several smaller ones.

A virtual card is a card like any other to whoever decides; only whoever starts something on it, or looks at it, has to
know what it is a part of. So that nothing has to be carried along beside it, its name says so: ``GPU-1a2b.2of4`` is the
second of four parts of ``GPU-1a2b``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpusquad.model.errors import Invalid

MOST_PARTS = 16
_NAME = re.compile(r"(?P<card>.+)\.(?P<number>[1-9]\d?)of(?P<count>[1-9]\d?)")


@dataclass(frozen=True, slots=True)
class VirtualCard:
    """One of ``count`` equal parts; ``number`` counts from 1."""

    card: str
    number: int
    count: int

    @property
    def id(self) -> str:
        return f"{self.card}.{self.number}of{self.count}"

    def of_bytes(self, total: int) -> int:
        """Its part of the card's memory."""
        return total // self.count

    def of_groups(self, groups: int) -> tuple[int, int]:
        """Its SM groups: the first, and how many. Parts are disjoint; what does not divide is used by nobody, so that
        all parts are alike."""
        each = groups // self.count
        if each < 1:
            raise Invalid("virtual", f"{self.count} parts of a card with {groups} SM groups", f"use 1 to {groups}")
        return (self.number - 1) * each, each


def parts_of(card: str, count: int) -> tuple[VirtualCard, ...]:
    """All parts of a card."""
    if not 2 <= count <= MOST_PARTS:
        raise Invalid("virtual", f"{count} is not a number of virtual cards", f"use 2 to {MOST_PARTS}")
    return tuple(VirtualCard(card, number, count) for number in range(1, count + 1))


def part_named(card: str) -> VirtualCard | None:
    """None: this is no virtual card."""
    match = _NAME.fullmatch(card)
    if match is None:
        return None
    number, count = int(match["number"]), int(match["count"])
    return VirtualCard(match["card"], number, count) if number <= count and 2 <= count <= MOST_PARTS else None


def physical(card: str) -> str:
    """The card that the driver knows."""
    part = part_named(card)
    return card if part is None else part.card
