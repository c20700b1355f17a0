"""Kubernetes quantities: numbers with a suffix, such as 8Gi, 500m or 1e3."""

from __future__ import annotations

from decimal import Decimal

from gpusquad.model.errors import Invalid
from gpusquad.model.kube_quantities import WHOLE, parse_nanos


def parse_quantity(text: str | int | float) -> Decimal:
    """The number, as the scheduler reads it."""
    try:
        return Decimal(parse_nanos(str(text).strip())) / WHOLE
    except ValueError as error:
        raise Invalid("quantity", f"{str(text)[:64]!r} {error}", "write for example 1, 500m or 8Gi") from None
