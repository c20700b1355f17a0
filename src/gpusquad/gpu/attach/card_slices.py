"""The slice of a physical card that a client uses: a virtual card is some SM groups and some memory of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpusquad.model.cluster import Card
from gpusquad.model.job import Share
from gpusquad.model.sm_groups import SMS_PER_GROUP
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.model.virtual import part_named


@dataclass(frozen=True, slots=True)
class CardSlice:
    """``card`` is the physical card."""

    card: Card
    within: int = 0
    """Mask of the SM groups of a virtual card; 0: all."""
    memory_bytes: int = 0
    """Memory of a virtual card; 0: not limited."""
    parts: int = 1
    """Number of virtual cards on the physical one."""

    def quota_bytes(self, share: Share | None) -> int:
        """0: not limited."""
        if share is None or share.is_slot_only:
            return self.memory_bytes
        return share.memory_on(self.memory_bytes or self.card.memory_bytes)

    def sm_guarantee(self, share: Share | None, is_time_sliced: bool) -> dict[str, int]:
        """SM fields of the daemon's spec. Own SMs matter only while others run concurrently: a time-sliced client gets
        all SMs and the same fraction of the time instead. A share of memory alone has no SM guarantee."""
        sm_milli = share.sm_milli if share is not None else 0
        if not self.within:
            return {"sm_milli": sm_milli}
        if not is_time_sliced:
            return {"sm_milli": sm_milli, "within": self.within}
        return {"sm_milli": (WHOLE_MILLI if share is None else sm_milli) // self.parts, "within": 0}


def place_on(card: Card) -> CardSlice:
    """Only the size of a virtual card is known; that of the physical card is the sum of all its virtual cards."""
    part = part_named(card.id)
    if part is None:
        return CardSlice(card)
    each = max(1, card.sms // SMS_PER_GROUP)
    whole = replace(
        card, id=part.card, memory_bytes=card.memory_bytes * part.count, sms=(each * part.count + 1) * SMS_PER_GROUP
    )
    return CardSlice(whole, ((1 << each) - 1) << (part.number - 1) * each, card.memory_bytes, part.count)
