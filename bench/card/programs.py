"""Small C programs of the benches, built when they are needed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.card.place import Lost


def built(source: Path, folder: Path) -> Path:
    compiler = shutil.which("gcc")
    if compiler is None:
        raise Lost(f"gcc is not installed, and it builds {source.name}")
    program = folder / source.stem
    subprocess.run(
        [compiler, "-O2", "-pthread", "-o", str(program), str(source), "-ldl"], check=True, capture_output=True
    )
    return program
