"""SM groups: the pieces in which a card's multiprocessors can be handed out."""

from __future__ import annotations

SMS_PER_GROUP = 8
"""What the driver rounds to on cards of compute capability 9.0."""
_MEASURED = {132: 15}
"""Groups that the driver made of so many SMs (H200, driver 580). Those left over are for unrestricted work alone."""


def sm_groups(sms: int) -> int:
    """How many groups can be counted on. Where nobody has measured it, one fewer than would fit: work that is sent to a
    group that does not exist would have to run anywhere."""
    return _MEASURED.get(sms) or max(1, sms // SMS_PER_GROUP - 1)
