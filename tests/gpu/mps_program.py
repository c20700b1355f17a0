"""A program in the place of MPS's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.gpu.mps import PROGRAM


def put_in_place(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """The script is found instead of the real one. The file it is to write to, as ``$ASKED``."""
    program = folder / "bin" / PROGRAM
    program.parent.mkdir()
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("ASKED", str(folder / "asked"))
    return folder / "asked"
