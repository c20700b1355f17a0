"""What a fault of a card says about the card: the one table of Xids.

Numbers and actions follow NVIDIA's Xid catalogue. A number that is not listed is doubtful.
"""

from __future__ import annotations

import re
from typing import Literal

FaultClass = Literal["program", "doubtful", "card"]
"""``program``: a program can cause it, and the card stays well. ``doubtful``: the program or the card is to blame; the
card is out of use until it passes a self-test. ``card``: the card needs a reset, a repair or time, whatever ran on it.
"""

PROGRAM_XIDS = frozenset({13, 31, 43, 45, 68, 69, 109, 137})
"""A bad address, an illegal instruction or a channel that was reset: the program that caused it ends, the card is well.
"""
INFORMATION_XIDS = frozenset({63, 92, 94, 154})
"""A remapped row, many corrected errors, a contained memory error that ends one program, or a recovery action that is
read at each tick anyway. Neither the card nor the program is blamed."""
CARD_XIDS = frozenset({46, 48, 54, 62, 64, 74, 79, 95, 110, 119, 120, 136, 140, 143, 155, 156, 158})
"""The card needs a reset, a repair or a check: uncorrectable memory, fallen off the bus, its firmware has stopped."""

_XID = re.compile(r"\bXid (\d{1,4})\b", re.IGNORECASE)


def class_of_xid(number: int) -> FaultClass | None:
    """None: nothing to act on."""
    if number in INFORMATION_XIDS:
        return None
    if number in PROGRAM_XIDS:
        return "program"
    return "card" if number in CARD_XIDS else "doubtful"


def class_of_trouble(cause: str) -> FaultClass:
    """Class of a card that does not answer well now. Never ``program``: whatever caused it, the card is not well."""
    found = _XID.search(cause)
    if found is None or int(found[1]) in CARD_XIDS:
        return "card"
    return "doubtful"


def class_of_event(cause: str) -> FaultClass:
    """Class of a reported event, after which the card answers well."""
    found = _XID.search(cause)
    return "doubtful" if found is None else class_of_xid(int(found[1])) or "program"
