"""Where on which physical card a tenant belongs: a virtual card is some SM groups and some memory of one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpusquad.model.cluster import Card
from gpusquad.model.job import Share
from gpusquad.model.sm_groups import SMS_PER_GROUP
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.model.virtual import part_named


@dataclass(frozen=True, slots=True)
class CardSlice:
    """``card`` is the one that the driver knows."""

    card: Card
    within: int = 0
    """The SM groups of a virtual card; 0: all."""
    memory_bytes: int = 0
    """Of a virtual card; 0: not limited."""
    parts: int = 1
    """Virtual cards that the physical one is shown as."""

    def quota_bytes(self, share: Share | None) -> int:
        """0: not limited."""
        if share is None or share.is_slot_only:
            return self.memory_bytes
        return share.memory_on(self.memory_bytes or self.card.memory_bytes)

    def promised(self, share: Share | None, takes_turns: bool) -> dict[str, int]:
        """What the card's daemon is told of it. SMs of its own are worth something while others run beside it: whoever
        takes turns with them instead has all SMs in its turns, and as large a part of the time. A share of the memory
        alone is promised nothing, here as there."""
        sm_milli = share.sm_milli if share is not None else 0
        if not self.within:
            return {"sm_milli": sm_milli}
        if not takes_turns:
            return {"sm_milli": sm_milli, "within": self.within}
        return {"sm_milli": (WHOLE_MILLI if share is None else sm_milli) // self.parts, "within": 0}


def place_on(card: Card) -> CardSlice:
    """Of a virtual card only its own size is known; the physical one's is what all such parts come to."""
    part = part_named(card.id)
    if part is None:
        return CardSlice(card)
    each = max(1, card.sms // SMS_PER_GROUP)
    whole = replace(
        card, id=part.card, memory_bytes=card.memory_bytes * part.count, sms=(each * part.count + 1) * SMS_PER_GROUP
    )
    return CardSlice(whole, ((1 << each) - 1) << (part.number - 1) * each, card.memory_bytes, part.count)
