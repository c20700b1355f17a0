"""Compile the stand-in driver with gcc, once for each version of the sources."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
SHARED = ("card.c",)
NVML = ("nvml.c", *SHARED)
FLAGS = ("-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")
# Like real libraries, the stand-in calls its own functions even if others are preloaded.
LINK = ("-Wl,-Bsymbolic", "-Wl,-z,defs", "-lm")


def build(folder: Path) -> Path:
    """Build libcuda.so.1 and libnvidia-ml.so.1. Returns their folder, for LD_LIBRARY_PATH."""
    target = folder / f"standin-{_digest()}"
    with locked(folder):
        if target.exists():
            return target
        with tempfile.TemporaryDirectory(dir=folder) as draft:
            built = Path(draft) / "made"
            built.mkdir()
            _compile(_driver_sources(), built / "libcuda.so.1")
            _compile(NVML, built / "libnvidia-ml.so.1")
            os.rename(built, target)
    return target


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process compiles; the others wait and use the result."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _driver_sources() -> tuple[str, ...]:
    return tuple(sorted(path.name for path in HERE.glob("*.c") if path.name != "nvml.c"))


def _digest() -> str:
    digest = hashlib.sha256(" ".join((*FLAGS, *LINK)).encode())
    for path in sorted((*HERE.glob("*.c"), *HERE.glob("*.h"))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _compile(sources: tuple[str, ...], library: Path) -> None:
    command = ["gcc", *FLAGS, "-Wl,-soname," + library.name, "-o", str(library)]
    done = subprocess.run(
        [*command, *(str(HERE / name) for name in sources), *LINK], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"gcc could not build {library.name}:\n{done.stderr}")
