"""CPU time that other virtual machines of the host take during a block. It delays requests under every way of
sharing."""

from __future__ import annotations

import os
from pathlib import Path

_STAT = Path("/proc/stat")
_STEAL = 8
"""Of the words of its first line, which adds up all processors."""


def stolen_ms(stat: Path = _STAT) -> float:
    """Since the machine started, of all processors together: they had work, and the host gave their time to others."""
    words = stat.read_text(encoding="ascii").splitlines()[0].split()
    return int(words[_STEAL]) * 1000 / os.sysconf("SC_CLK_TCK")
