"""Formats amounts of memory."""

from __future__ import annotations

TIB, GIB, MIB = 2**40, 2**30, 2**20


def size(value: int) -> str:
    """``600 MiB``, ``12.5 GiB``, ``100.0 TiB``."""
    if value >= 10 * TIB:
        return f"{value / TIB:.1f} TiB"
    return f"{value / GIB:.1f} GiB" if value >= GIB else f"{value / MIB:.0f} MiB"
