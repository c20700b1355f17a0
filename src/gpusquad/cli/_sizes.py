"""Formats amounts of memory."""

from __future__ import annotations

GIB, MIB = 2**30, 2**20


def size(value: int) -> str:
    return f"{value / GIB:.1f} GiB" if value >= GIB else f"{value / MIB:.0f} MiB"
