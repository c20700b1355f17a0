"""Where the public traces are."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def data_path(name: str) -> Path:
    """``$GPUSQUAD_DATA``, else the folder beside the checkout."""
    return Path(os.environ.get("GPUSQUAD_DATA", ROOT.parent / "shared" / "data")) / name
