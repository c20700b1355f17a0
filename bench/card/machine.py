"""Machine and versions of a run, for its first row."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpusquad.gpu import daemon
from gpusquad.gpu.build import SOURCES, source_files
from gpusquad.gpu.nvml import CardReader, NvmlError
from gpusquad.model.errors import Invalid
from gpusquad.policies import divide


def sitting(bench: str, device: str, card: str) -> dict[str, Any]:
    """One call of one bench. Its blocks refer to it."""
    return {
        "bench": bench, "kind": "sitting", "sitting": secrets.token_hex(4), "device": device,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "cores": os.cpu_count(),
        "python": platform.python_version(), "system": platform.platform(), "library": library_version(),
        "policies": policies_version(),
        **_card(device, card),
    }  # fmt: skip


def _card(device: str, card: str) -> dict[str, Any]:
    if device == "cpu":
        return {"gpu": "none: a rehearsal", "driver": ""}
    try:
        reader = CardReader(card)
        return {"gpu": reader.model(), "driver": reader.driver(), "memory_bytes": reader.total_bytes()}
    except (Invalid, NvmlError) as error:
        return {"gpu": "unknown", "driver": str(error)}


def library_version() -> str:
    """Short hash of the shim's sources: figures of different versions must not be mixed."""
    return _version(source_files(SOURCES))


def policies_version() -> str:
    """Short hash of the policies and of the daemon that calls them."""
    return _version(path for part in (divide, daemon) for path in Path(part.__path__[0]).glob("*.py"))


def _version(sources: Iterable[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(sources))).hexdigest()[:8]
