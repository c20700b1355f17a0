"""Amounts as Kubernetes writes them (``100m``, ``1.5``, ``8Gi``, ``2e3``), read exactly: for the scheduler, which reads
what pods ask for, and for the agent, which sees to it that they get that and no more.

They are kept in billionths, the finest that Kubernetes keeps, so that sums are exact and only the sum is rounded:
three containers of ``100u`` cores take one thousandth, not three.
"""

from __future__ import annotations

import re
from functools import lru_cache

WHOLE = 10**9
"""One, in billionths."""
MOST = 10**24 * WHOLE
"""Far above what any node can have, and below what would be slow to count."""
_MOST_TEXT = 64
_MOST_EXPONENT = 64
_AMOUNT = re.compile(
    r"([+-]?)(\d+\.?\d*|\.\d+)(?:([numkMGTPE])|([KMGTPE])i|[eE]([+-]?\d{1,4}))?",
    re.ASCII,
)
_TENS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS = {"K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}


@lru_cache(maxsize=65536)
def parse_nanos(text: str) -> int:
    """In billionths, rounded up. ValueError: what is wrong with it."""
    match = _AMOUNT.fullmatch(text) if len(text) <= _MOST_TEXT else None
    if match is None:
        raise ValueError("is not an amount")
    sign, number, tens, twos, exponent = match.groups()
    digits, _, decimals = number.partition(".")
    ten = 9 - len(decimals) + (_TENS[tens] if tens else int(exponent or 0))
    result = int(digits + decimals) << (_TWOS[twos] if twos else 0)
    if sign == "-" and result:
        raise ValueError("is negative")
    if result and ten > _MOST_EXPONENT:
        raise ValueError("is more than any node can have")
    result = result * 10**ten if ten >= 0 else up(result, 10**-ten)
    if result > MOST:
        raise ValueError("is more than any node can have")
    return result


def up(amount: int, unit: int) -> int:
    """How many units hold the amount."""
    return -(-amount // unit)
