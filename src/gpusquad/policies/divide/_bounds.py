"""What the parameters of a policy may be: said once for each, and refused in the same words."""

from __future__ import annotations

from gpusquad.model.errors import Invalid
from gpusquad.model.squad import LONGEST_SQUAD_US, SHORTEST_SQUAD_US

Range = tuple[float, float]

PART: Range = (0, 1)
COUNT: Range = (1, 1_000_000)
"""Of squads or requests: more is for ever."""
SQUAD_US: Range = (SHORTEST_SQUAD_US, LONGEST_SQUAD_US)


def check(name: str, policy: object, **ranges: Range) -> None:
    """Each of these fields of the policy lies within its range, both ends included; not a number lies in none."""
    for field, (low, high) in ranges.items():
        value = getattr(policy, field)
        if not low <= value <= high:
            raise Invalid(f"divide.{name}.{field}", f"{_text(value)} is out of range", f"use {low} to {high}")


def _text(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
