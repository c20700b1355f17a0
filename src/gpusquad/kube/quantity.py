"""Kubernetes quantities (``100m``, ``1.5``, ``8Gi``, ``2e3``), parsed exactly.

They are kept in billionths, the finest unit of Kubernetes, so that sums are exact and only the sum is rounded:
three containers of ``100u`` cores take one thousandth, not three.
"""

from __future__ import annotations

import re
from functools import lru_cache

from gpusquad.kube.errors import MalformedField, short

UNIT_NANOS = 10**9
"""One unit in billionths."""
_MAX_NANOS = 10**24 * UNIT_NANOS
"""Far above the capacity of any node, and small enough to compute with quickly."""
_MILLI_NANOS = 10**6
_MAX_TEXT = 64
_MAX_EXPONENT = 64
_QUANTITY = re.compile(
    r"([+-]?)(\d+\.?\d*|\.\d+)(?:([numkMGTPE])|([KMGTPE])i|[eE]([+-]?\d{1,4}))?",
    re.ASCII,
)
_TENS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS = {"K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}


def parse_quantity(value: object, path: str, name: str = "") -> int:
    """A quantity in billionths, rounded up. ``path`` and ``name`` (of the resource) locate it in the error."""
    try:
        return _parse_nanos(value if isinstance(value, str) else _number_text(value))
    except ValueError as error:
        where = f"{path}[{name[:64]}]" if name else path
        raise MalformedField(where, f"{short(value)} {error}", "write for example 500m, 2 or 8Gi") from None


def milli_from_nanos(nanos: int) -> int:
    """Thousandths, rounded up."""
    return _ceil_div(nanos, _MILLI_NANOS)


def units_from_nanos(nanos: int) -> int:
    """Whole units, rounded up."""
    return _ceil_div(nanos, UNIT_NANOS)


@lru_cache(maxsize=65536)
def _parse_nanos(text: str) -> int:
    """ValueError: what is wrong with the text."""
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None:
        raise ValueError("is not an amount")
    sign, number, tens, twos, exponent = match.groups()
    digits, _, decimals = number.partition(".")
    ten = 9 - len(decimals) + (_TENS[tens] if tens else int(exponent or 0))
    result = int(digits + decimals) << (_TWOS[twos] if twos else 0)
    if sign == "-" and result:
        raise ValueError("is negative")
    if result and ten > _MAX_EXPONENT:
        raise ValueError("is more than any node can have")
    result = result * 10**ten if ten >= 0 else _ceil_div(result, 10**-ten)
    if result > _MAX_NANOS:
        raise ValueError("is more than any node can have")
    return result


def _number_text(value: object) -> str:
    """YAML that has not passed through an API server may contain bare numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("is not an amount")
    if isinstance(value, int) and abs(value) > _MAX_NANOS:
        raise ValueError("is more than any node can have")
    return str(value)


def _ceil_div(amount: int, unit: int) -> int:
    return -(-amount // unit)
