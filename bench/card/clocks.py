"""Clock and power of the card during a block. A card at its power limit slows all clients under every way of
sharing."""

from __future__ import annotations

import contextlib
import time
from functools import cache
from typing import Any

from bench.card.place import Place
from gpusquad.gpu.nvml import CardReader, NvmlError
from gpusquad.model.errors import Invalid

_EVERY_S = 0.25
"""Seldom: the driver answers such questions with a lock held."""


def watch(place: Place, from_s: float, to_s: float) -> dict[str, Any]:
    """Wait for a window and return its means. Empty without a card or without readings."""
    reader = None if place.device == "cpu" else _reader(place.card)
    if reader is None:
        return {}
    with contextlib.suppress(NvmlError):
        time.sleep(max(0.0, from_s - time.monotonic()))
        begun_s, begun_j = time.monotonic(), reader.energy_j()
        clocks = []
        while time.monotonic() < to_s - _EVERY_S:
            time.sleep(_EVERY_S)
            clocks.append(reader.sm_mhz())
        power_w = (reader.energy_j() - begun_j) / (time.monotonic() - begun_s)
        return {"sm_mhz": round(sum(clocks) / len(clocks)), "power_w": round(power_w)} if clocks else {}
    return {}


@cache
def _reader(card: str) -> CardReader | None:
    try:
        return CardReader(card)
    except (Invalid, NvmlError):
        return None
