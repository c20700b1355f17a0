"""What a share takes of the memory of many cards."""

from __future__ import annotations

import numpy as np

from gpusquad.model.job import SLOT_MEMORY_BYTES, Share
from gpusquad.model.placement import Ints
from gpusquad.model.units import WHOLE_MILLI


def memory_taken(share: Share, card_bytes: Ints) -> Ints:
    """As ``Share.memory_on``, of each card. Of one whose memory is not known: nothing, but for bytes that are named."""
    if share.memory_bytes:
        return np.full(card_bytes.shape, share.memory_bytes)
    if share.is_slot_only:
        return np.minimum(SLOT_MEMORY_BYTES, card_bytes)
    return card_bytes * share.memory_milli // WHOLE_MILLI
