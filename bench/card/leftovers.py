"""The folder of a stage, and cleanup after benches that were killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from gpusquad.gpu.mps import Mps
from gpusquad.model.errors import Invalid

SHARED = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path(tempfile.gettempdir())
MPS = "mps"
_PREFIX, _OWNER = "gpusquad-card-", "owner"


def new_folder(shared: Path) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=shared))
    (folder / _OWNER).write_text(str(os.getpid()), encoding="utf-8")
    return folder


def sweep(shared: Path, card: str) -> None:
    """Remove what killed benches left. Otherwise their MPS daemons would run indefinitely."""
    for folder in shared.glob(f"{_PREFIX}*"):
        try:
            owner = int((folder / _OWNER).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # being created by another bench, or owned by another user
            continue
        if Path(f"/proc/{owner}").exists():
            continue
        if (folder / MPS).exists():
            with contextlib.suppress(Invalid):
                Mps(card, folder=str(folder / MPS)).__exit__(None, None, None)
        shutil.rmtree(folder, ignore_errors=True)
