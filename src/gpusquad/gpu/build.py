"""The shim, the library that GPU clients preload: shipped with the wheel, or built from its sources at first use.

The build needs a C compiler and nothing of CUDA. The result is stored in a folder named by a hash of the sources, so
that a new version never uses an old library. Two processes may build at once.

The library loads with glibc 2.17 or later (``OLDEST_GLIBC``; a test checks every symbol that it requires). Where it
cannot load, it enforces nothing:

- older glibc: no program in that container starts, because the dynamic linker does not find all symbols;
- a file that is missing or not a library: the dynamic linker reports it on stderr and the program continues;
- musl (Alpine) in a container: it does not read ``/etc/ld.so.preload``, so nothing happens;
- musl with ``LD_PRELOAD``: the program does not start. Where such programs may run, use the file and not the variable;
- statically linked programs, and programs that call the kernel driver directly: nothing is preloaded.

Such a process is unmanaged. NVML lists it, and the card's rule for unmanaged processes applies.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from gpusquad.model.errors import NotReady

SOURCES = Path(__file__).with_name("shim")
FLAGS = (
    *("-O2", "-fPIC", "-shared", "-std=gnu11", "-D_GNU_SOURCE", "-fvisibility=hidden"),
    "-ftls-model=initial-exec",  # no call per thread-local variable; static TLS has room for these few
    *("-Wall", "-Wextra", "-Werror"),
    *("-Wl,-Bsymbolic", "-Wl,-z,relro", "-Wl,-z,defs"),
)
LIBRARIES = ("-Wl,--no-as-needed", "-l:libdl.so.2", "-l:libpthread.so.0", "-Wl,--as-needed", "-lm")
"""Part of the C library itself since glibc 2.34. Named for older versions."""
OLDEST_GLIBC = (2, 17)

_INCLUDED_FIRST = "old_glibc.h"
_NAME = "libgpusquad.so"


def library(cache: Path | None = None) -> Path:
    """Return the path of the library. Build it in ``cache`` (default: the user's cache folder) if there is none yet."""
    shipped = SOURCES / f"libgpusquad-{platform.machine()}.so"
    if shipped.exists():
        return shipped
    built = (cache or _user_cache()) / _fingerprint(SOURCES) / _NAME
    if not built.exists():
        compile_library(SOURCES, built)
    return built


def source_files(sources: Path) -> list[Path]:
    """Return the files that the library is built from, in all folders, sorted."""
    return sorted(path for path in sources.rglob("*") if path.suffix in {".c", ".h", ".def"})


def compile_library(sources: Path, target: Path, flags: Sequence[str] = ()) -> None:
    """Build the library at ``target``: complete or not at all. ``flags`` are given to the compiler after ours."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise NotReady(
            "gcc", "is not installed; it is needed to build the GPU sharing library", "apt-get install gcc libc6-dev"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / _NAME
        parts = [str(path) for path in source_files(sources) if path.suffix == ".c"]
        first = ["-include", str(sources / _INCLUDED_FIRST)] if (sources / _INCLUDED_FIRST).exists() else []
        command = [compiler, *FLAGS, *flags, "-I", str(sources), *first, "-o", str(made), *parts, *LIBRARIES]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NotReady("gcc", f"could not build the GPU sharing library:\n{done.stderr.strip()}")
        made.chmod(0o755)
        os.replace(made, target)


def reclaimer(path: Path | None = None) -> Callable[[Path], int]:
    """Return a function that releases the bytes of a client's dead processes and returns how many."""
    found = ctypes.CDLL(str(path or library())).gpusquad_reclaim
    found.argtypes, found.restype = [ctypes.c_char_p], ctypes.c_int64
    return lambda client: found(os.fsencode(client))


def _fingerprint(sources: Path) -> str:
    digest = hashlib.sha256(" ".join([*FLAGS, *LIBRARIES, platform.machine()]).encode())
    for path in source_files(sources):
        digest.update(path.relative_to(sources).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _user_cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "gpusquad" / "shim"
