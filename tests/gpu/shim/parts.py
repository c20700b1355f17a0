"""Parts of the library that need neither a driver nor a region, loaded by themselves."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from gpusquad.gpu.build import SOURCES

_FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-I", str(SOURCES))
"""Bound to their own: what a test gives in place of the C library's functions is what they call."""


def loaded(folder: Path, names: list[str], *more: Path) -> ctypes.CDLL:
    """By the names of their sources. ``more``: sources of the test's own."""
    made = folder / "part.so"
    subprocess.run(["gcc", *_FLAGS, "-o", made, *(SOURCES / name for name in names), *more, "-lm"], check=True)
    return ctypes.CDLL(str(made))
