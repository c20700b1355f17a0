"""Load single source files of the shim that need neither a driver nor a region."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from gpusquad.gpu.build import SOURCES

_FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-Wl,-Bsymbolic", "-I", str(SOURCES))
"""Symbols are bound within the library, so a test can replace functions of the C library."""


def loaded(folder: Path, names: list[str], *more: Path) -> ctypes.CDLL:
    """Compile and load these files of the shim. ``more``: the test's own sources."""
    made = folder / "part.so"
    subprocess.run(["gcc", *_FLAGS, "-o", made, *(SOURCES / name for name in names), *more, "-lm"], check=True)
    return ctypes.CDLL(str(made))
