"""What a share takes of the memory of many cards, and on which of them there is enough left for it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpusquad.model.job import Share
from gpusquad.model.placement import Ints
from gpusquad.model.units import WHOLE_MILLI

PLACE_BYTES = 1 << 30
"""A place without a promise is of no use where less of the card's memory is left."""


def memory_taken(share: Share, card_bytes: Ints) -> Ints | int:
    """As ``Share.memory_on``, of each card. Nothing of one whose memory is not known."""
    return share.memory_bytes or card_bytes * share.memory_milli // WHOLE_MILLI


def memory_fits(share: Share, card_bytes: Ints, free_bytes: Ints) -> NDArray[np.bool_]:
    """Cards with memory for one more such share."""
    if share.memory_bytes or share.memory_milli:
        return free_bytes >= memory_taken(share, card_bytes)
    return free_bytes >= np.minimum(PLACE_BYTES, card_bytes)
