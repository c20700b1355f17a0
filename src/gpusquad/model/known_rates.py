"""Measured rates of a GPU client as plain data: checked on input, and as text in a pod annotation."""

from __future__ import annotations

import json
from dataclasses import replace

from gpusquad.model.errors import Invalid
from gpusquad.model.fields import checked_text
from gpusquad.model.sharing_params import SharingParams
from gpusquad.model.units import WHOLE_MILLI, number, whole

MAX_APPS = 256
MAX_TEXT = 64 * 1024
_MAX_RATE = 10.0
"""Largest rate. A higher one is a measurement error."""
_DIGITS = 3


def speeds_from(said: object, field: str) -> dict[str, float]:
    """Rates by app."""
    if not isinstance(said, dict) or len(said) > MAX_APPS:
        raise Invalid(field, f"must be an object with at most {MAX_APPS} entries", 'write for example {"vgg16": 0.6}')
    return {checked_text(app, field): number(speed, f"{field}.{app}", high=_MAX_RATE) for app, speed in said.items()}


def curve_from(said: object, field: str) -> tuple[tuple[int, float], ...]:
    if not isinstance(said, (list, tuple)) or not 0 < len(said) <= WHOLE_MILLI:
        raise Invalid(field, "must be a list of points", "write for example [[500, 0.7], [1000, 1.0]]")
    points = []
    for row in said:
        if not isinstance(row, (list, tuple)) or len(row) != 2:
            raise Invalid(field, f"{row!r} is not a point", "a point is thousandths of the SMs and a speed")
        points.append((whole(row[0], field, low=1, high=WHOLE_MILLI), number(row[1], field, high=_MAX_RATE)))
    return tuple(sorted(points))


def known_text(sharing_params: SharingParams) -> str:
    """Annotation text. Empty: nothing is known, or the text would be too long."""
    if not sharing_params.app:
        return ""
    known = {
        "app": sharing_params.app, "curve": [[milli, round(speed, _DIGITS)] for milli, speed in sharing_params.curve],
        "solo_per_s": sharing_params.solo_per_s,
        "beside": {app: round(speed, _DIGITS) for app, speed in sharing_params.rate_beside.items()},
        "costs": {app: round(speed, _DIGITS) for app, speed in sharing_params.neighbour_rates.items()},
    }  # fmt: skip
    text = json.dumps(known, separators=(",", ":"))
    return text if len(text) <= MAX_TEXT else ""


def with_known(sharing_params: SharingParams, text: str) -> SharingParams:
    """Text that cannot be read is ignored, because a user may have written it."""
    try:
        said = json.loads(text) if 0 < len(text) <= MAX_TEXT else None
        if not isinstance(said, dict):
            return sharing_params
        app = checked_text(said.get("app"), "app")
        curve = curve_from(said["curve"], "curve") if said.get("curve") else ()
        solo_per_s = number(said.get("solo_per_s", 0.0), "solo_per_s")
        beside, costs = (speeds_from(said.get(name, {}), name) for name in ("beside", "costs"))
    except (Invalid, ValueError, RecursionError):
        return sharing_params
    return replace(
        sharing_params, app=app, curve=curve, solo_per_s=solo_per_s, rate_beside=beside, neighbour_rates=costs
    )
