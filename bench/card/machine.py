"""What a run was measured on, for its first row: figures without a driver and a date are not kept."""

from __future__ import annotations

import hashlib
import os
import platform
import secrets
import time
from typing import Any

from gpusquad.gpu.build import SOURCES
from gpusquad.gpu.measure.card.nvml import CardReader, NvmlError
from gpusquad.model.errors import Invalid


def sitting(bench: str, device: str, card: str) -> dict[str, Any]:
    """One call of one bench. Its blocks name it."""
    return {
        "bench": bench, "kind": "sitting", "sitting": secrets.token_hex(4), "device": device,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "cores": os.cpu_count(),
        "python": platform.python_version(), "system": platform.platform(), "library": _library(),
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


def _library() -> str:
    """A short name of the sources of the tenants' library: figures of two versions are not one figure."""
    parts = (path.read_bytes() for path in sorted(SOURCES.iterdir()) if path.suffix in (".c", ".h", ".def"))
    return hashlib.sha256(b"".join(parts)).hexdigest()[:8]
