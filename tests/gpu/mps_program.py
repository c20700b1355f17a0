"""A fake MPS control program."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusquad.gpu.mps import PROGRAM


def install_fake_mps_program(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """Put the script into ``PATH`` before the real program. Returns the file that it can write to as ``$ASKED``."""
    program = folder / "bin" / PROGRAM
    program.parent.mkdir()
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("ASKED", str(folder / "asked"))
    return folder / "asked"
