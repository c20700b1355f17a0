"""Amounts of objects, with where they stand for the error. How they are read: ``model.kube_quantities``."""

from __future__ import annotations

from gpusquad.kube.errors import MalformedField, short
from gpusquad.model.kube_quantities import MOST, WHOLE, parse_nanos, up

_MILLI = 10**6


def nanos(value: object, path: str, name: str = "") -> int:
    """An amount in billionths, rounded up. ``path`` is where it stands, and ``name`` what it is of, for the error."""
    try:
        return parse_nanos(value if isinstance(value, str) else _plain(value))
    except ValueError as error:
        where = f"{path}[{name[:64]}]" if name else path
        raise MalformedField(where, f"{short(value)} {error}", "write for example 500m, 2 or 8Gi") from None


def milli(value: object, path: str = "quantity") -> int:
    """Whole thousandths, rounded up."""
    return up(nanos(value, path), _MILLI)


def whole(value: object, path: str = "quantity") -> int:
    """Whole units, rounded up."""
    return up(nanos(value, path), WHOLE)


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
