"""SM groups: the unit in which SMs are assigned."""

from __future__ import annotations

SMS_PER_GROUP = 8
"""Granularity of the driver on cards of compute capability 9.0."""
_MEASURED = {132: 15}
"""Number of SMs -> groups that the driver created (H200, driver 580). Only unrestricted work uses the remaining SMs."""


def sm_groups(sms: int) -> int:
    """Number of groups of a card. If not measured, one fewer than would fit, because work for a missing group would run
    on any SM."""
    return _MEASURED.get(sms) or max(1, sms // SMS_PER_GROUP - 1)
