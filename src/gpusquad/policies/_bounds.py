"""Range checks of policy parameters, with one wording for all errors."""

from __future__ import annotations

from gpusquad.model.errors import Invalid

Range = tuple[float, float]


def check(policy: object, name: str, **ranges: Range) -> None:
    """Check that each of these fields lies within its range, both ends included. NaN lies in none.
    ``name``: kind and name of the policy, for example ``divide.slo``."""
    for field, (low, high) in ranges.items():
        value = getattr(policy, field)
        if not low <= value <= high:
            raise Invalid(f"{name}.{field}", f"{_text(value)} is out of range", f"use {low} to {high}")


def _text(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
