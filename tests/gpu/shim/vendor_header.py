"""The vendor's ``cuda.h``, if installed, and our tables of its functions, for comparison."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gpusquad.gpu import build

_INSTALLED = "nvidia/cu13/include"
"""The headers of the package ``nvidia-cuda-runtime``, below a folder of Python's path."""
_ROW = re.compile(
    r"^(HOOK2|HOOK|NEED)\((\w+),\s*(\d+),\s*(\w+),\s*(?:(cu\w+_pt[sd][sz]),\s*)?(\(.*?\))\)$", re.M | re.S
)
_PASSES = re.compile(r'^PASSES\((\w+), "([^"]+)"\)$', re.M)


def find_header() -> Path | None:
    """Return the folder of ``cuda.h``: of an installed package, or of the toolkit."""
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include"
    yield_points = [*(Path(folder) / _INSTALLED for folder in sys.path), toolkit]
    return next((place for place in yield_points if (place / "cuda.h").exists()), None)


@dataclass(frozen=True)
class Row:
    """One line of our tables."""

    base: str
    since: int
    symbol: str
    thread: str | None
    """Its variant for per-thread default streams."""
    arguments: str
    hooked: bool

    @property
    def symbols(self) -> tuple[str, ...]:
        return (self.symbol, self.thread) if self.thread else (self.symbol,)


def our_rows() -> list[Row]:
    """Return the rows of the driver's functions. No CUDA header has those of NVML."""
    text = "".join((build.SOURCES / name).read_text() for name in ("hooks/calls.def", "hooks/gate_calls.def"))
    rows = [
        Row(base, int(since), symbol, thread or None, " ".join(arguments.split()), kind != "NEED")
        for kind, base, since, symbol, thread, arguments in _ROW.findall(text)
    ]
    assert len(rows) == len(re.findall(r"^(?:HOOK2?|NEED)\(", text, re.M)), "every line is read"
    return [row for row in rows if row.symbol.startswith("cu")]


def passed_through() -> dict[str, str]:
    """Functions that are not hooked, with the reasons."""
    return dict(_PASSES.findall((build.SOURCES / "hooks/passes_through.def").read_text()))


@dataclass(frozen=True)
class Header:
    folder: Path

    @cached_property
    def version(self) -> int:
        found = re.search(r"^#define CUDA_VERSION (\d+)", (self.folder / "cuda.h").read_text(errors="replace"), re.M)
        assert found is not None
        return int(found[1])

    @cached_property
    def functions(self) -> dict[str, str]:
        """All functions that the driver exports, with their parameters."""
        command = ["gcc", "-E", "-P", "-D__CUDA_API_VERSION_INTERNAL", str(self.folder / "cuda.h")]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return dict(re.findall(r"CUresult\s+(cu\w+)\s*\(([^;{]*)\)\s*;", text))

    @cached_property
    def versions(self) -> set[tuple[str, int, str]]:
        """Name, version and suffix of every variant that ``cuGetProcAddress`` may return."""
        text = (self.folder / "cudaTypedefs.h").read_text(errors="replace")
        found = re.findall(r"\*\s*PFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\)", text)
        return {(name, int(version), ending) for name, version, ending in found}

    def compile(self, lines: Iterable[str], *flags: str) -> str:
        """Compile a program over the vendor's header and return the compiler's errors."""
        head = ["#define __CUDA_API_VERSION_INTERNAL", "#include <stdint.h>", "#include <cuda.h>"]
        program = "\n".join([*head, "#include <cudaTypedefs.h>", *lines, ""])
        command = ["gcc", "-fsyntax-only", "-I", str(self.folder), *flags, "-xc", "-"]
        return subprocess.run(command, input=program, capture_output=True, text=True, check=False).stderr
