"""What the parameters of a policy may be: said once for each, and refused in the same words."""

from __future__ import annotations

from gpusquad.model.errors import Invalid

Range = tuple[float, float]


def check(policy: object, name: str, **ranges: Range) -> None:
    """Each of these fields of the policy lies within its range, both ends included; not a number lies in none.
    ``name``: its kind and its own, ``divide.slo``."""
    for field, (low, high) in ranges.items():
        value = getattr(policy, field)
        if not low <= value <= high:
            raise Invalid(f"{name}.{field}", f"{_text(value)} is out of range", f"use {low} to {high}")


def _text(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
