"""Kubernetes quantities: numbers with a suffix, such as 8Gi, 500m or 1e3."""

from __future__ import annotations

import re
from decimal import Decimal

from gpusquad.model.errors import Invalid

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?)([a-zA-Z]*)")
_BINARY = {f"{letter}i": Decimal(1024) ** (power + 1) for power, letter in enumerate("KMGTPE")}
_DECIMAL = {letter: Decimal(1000) ** (power + 1) for power, letter in enumerate("kMGTPE")}
_FACTORS = {"": Decimal(1), "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), **_BINARY, **_DECIMAL}


def parse_quantity(text: str | int | float) -> Decimal:
    """The exact number."""
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None or match[2] not in _FACTORS:
        raise Invalid("quantity", f"cannot read {text!r}", "write for example 1, 500m or 8Gi")
    return Decimal(match[1]) * _FACTORS[match[2]]
