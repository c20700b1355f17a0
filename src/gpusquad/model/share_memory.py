"""Memory that a share takes, for many cards at once."""

from __future__ import annotations

import numpy as np

from gpusquad.model.job import SLOT_MEMORY_BYTES, Share
from gpusquad.model.placement import Ints
from gpusquad.model.units import WHOLE_MILLI


def memory_taken(share: Share, card_bytes: Ints) -> Ints:
    """``Share.memory_on`` for each card. A card of unknown memory gives 0, unless the share is in bytes."""
    if share.memory_bytes:
        return np.full(card_bytes.shape, share.memory_bytes)
    if share.is_slot_only:
        return np.minimum(SLOT_MEMORY_BYTES, card_bytes)
    return card_bytes * share.memory_milli // WHOLE_MILLI
