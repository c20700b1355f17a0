"""Amounts as Kubernetes writes them (``100m``, ``1.5``, ``8Gi``, ``2e3``), read exactly.

They are kept in billionths, the finest that Kubernetes keeps, so that sums are exact and only the sum is rounded:
three containers of ``100u`` cores take one thousandth, not three.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gpusquad.engines.kubernetes.reading.errors import Malformed, short

WHOLE = 10**9
"""One, in billionths."""
MOST = 10**24 * WHOLE
"""Far above what any node can have, and below what would be slow to count."""

_MILLI = 10**6
_MOST_TEXT = 64
_MOST_EXPONENT = 64
_AMOUNT = re.compile(
    r"([+-]?)(\d+\.?\d*|\.\d+)(?:([numkMGTPE])|([KMGTPE])i|[eE]([+-]?\d{1,4}))?",
    re.ASCII,
)
_TENS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS = {"K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}


def nanos(value: object, path: str, name: str = "") -> int:
    """An amount in billionths, rounded up. ``path`` is where it stands, and ``name`` what it is of, for the error."""
    try:
        return _nanos(value if isinstance(value, str) else _plain(value))
    except ValueError as error:
        where = f"{path}[{name[:64]}]" if name else path
        raise Malformed(where, f"{short(value)} {error}", "write for example 500m, 2 or 8Gi") from None


def milli(value: object, path: str = "quantity") -> int:
    """Whole thousandths, rounded up."""
    return up(nanos(value, path), _MILLI)


def whole(value: object, path: str = "quantity") -> int:
    """Whole units, rounded up."""
    return up(nanos(value, path), WHOLE)


def up(amount: int, unit: int) -> int:
    """How many units hold the amount."""
    return -(-amount // unit)


def in_milli(amount: int) -> int:
    return up(amount, _MILLI)


def in_whole(amount: int) -> int:
    return up(amount, WHOLE)


def _plain(value: object) -> str:
    """YAML that was never at an API server may hold bare numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("is not an amount")
    if isinstance(value, int) and abs(value) > MOST:
        raise ValueError("is more than any node can have")
    return str(value)


@lru_cache(maxsize=65536)
def _nanos(text: str) -> int:
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
