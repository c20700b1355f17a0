"""Messages about shared cards, for users."""

from __future__ import annotations

from collections.abc import Mapping

from gpusquad.gpu.attach.card_manager import CardManager
from gpusquad.gpu.attach.records import AttachRecord
from gpusquad.model.errors import Invalid, NotReady


def about_client(told: AttachRecord | None) -> dict[str, object]:
    if told is None:
        return {"job": "", "isolation": "", "note": ""}
    return {"job": told.job, "isolation": "shared" if told.is_pooled else "isolated", "note": "; ".join(told.notes)}


def mps_in_words(manager: CardManager, told: Mapping[str, AttachRecord]) -> str:
    pooled = sum(one.is_pooled for one in told.values())
    if pooled:
        return f"pool of {pooled}"
    if not manager.pool.is_installed:
        return "none: jobs are time-sliced"
    return manager.pool.trouble or "not needed now"


def as_invalid(error: Invalid | OSError) -> Invalid:
    if isinstance(error, Invalid):
        return error
    return NotReady("card", f"cannot use its folder: {error}", "make it writable for the service")
