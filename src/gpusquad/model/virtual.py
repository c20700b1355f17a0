"""Virtual cards: one physical card shown as several smaller ones.

For the scheduler a virtual card is a card like any other. Only code that starts or inspects processes on it needs the
physical card, which the id contains: ``GPU-1a2b.2of4`` is the second of four virtual cards of ``GPU-1a2b``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpusquad.model.errors import Invalid

MAX_PARTS = 16
_NAME = re.compile(r"(?P<card>.+)\.(?P<number>[1-9]\d?)of(?P<count>[1-9]\d?)")


@dataclass(frozen=True, slots=True)
class VirtualCard:
    """One of ``count`` equal slices of a card; ``number`` counts from 1."""

    card: str
    number: int
    count: int

    @property
    def id(self) -> str:
        return f"{self.card}.{self.number}of{self.count}"

    def of_bytes(self, total: int) -> int:
        """Its fraction of the card's memory."""
        return total // self.count

    def of_groups(self, groups: int) -> tuple[int, int]:
        """First SM group and number of groups. Virtual cards are disjoint and equal; a remainder of groups is
        unused."""
        each = groups // self.count
        if each < 1:
            raise Invalid(
                "virtual",
                f"{self.count} virtual cards need more than the {groups} SM groups of the card",
                f"use 1 to {groups}",
            )
        return (self.number - 1) * each, each


def parts_of(card: str, count: int) -> tuple[VirtualCard, ...]:
    """All virtual cards of a card."""
    if not 2 <= count <= MAX_PARTS:
        raise Invalid("virtual", f"{count} is not a number of virtual cards", f"use 2 to {MAX_PARTS}")
    return tuple(VirtualCard(card, number, count) for number in range(1, count + 1))


def part_named(card: str) -> VirtualCard | None:
    """The virtual card with this id. None: it is not one."""
    match = _NAME.fullmatch(card)
    if match is None:
        return None
    number, count = int(match["number"]), int(match["count"])
    return VirtualCard(match["card"], number, count) if number <= count and 2 <= count <= MAX_PARTS else None


def physical(card: str) -> str:
    """Id of the physical card."""
    part = part_named(card)
    return card if part is None else part.card
