"""What people are told of a card that is shared."""

from __future__ import annotations

from collections.abc import Mapping

from gpusquad.gpu.attach.keeper import CardKeeper
from gpusquad.gpu.attach.records import Told
from gpusquad.model.errors import Invalid, NotNow


def about_tenant(told: Told | None) -> dict[str, object]:
    if told is None:
        return {"job": "", "isolation": "", "note": ""}
    return {"job": told.job, "isolation": "shared" if told.is_pooled else "isolated", "note": "; ".join(told.notes)}


def mps_in_words(keeper: CardKeeper, told: Mapping[str, Told]) -> str:
    pooled = sum(one.is_pooled for one in told.values())
    if pooled:
        return f"pool of {pooled}"
    if not keeper.pool.is_installed:
        return "none: tenants take turns"
    return keeper.pool.trouble or "not needed now"


def told_to_people(error: Invalid | OSError) -> Invalid:
    if isinstance(error, Invalid):
        return error
    return NotNow("card", f"its folder cannot be used: {error}", "make it writable for the service")
