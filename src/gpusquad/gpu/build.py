"""The library that tenant processes load: found where the wheel brought it, else built from its sources at first use.

It needs a C compiler and nothing of CUDA. The result is kept in a folder named by the sources, so that a new version
never meets an old library and two processes that build at once do no harm.

Wherever it was built, it loads with glibc 2.17 or later (``OLDEST_GLIBC``; a test looks at every symbol it asks for).
Where it cannot load it enforces nothing:

- older glibc: no program of that container starts, for the linker asks for symbols that are not there;
- a file that is no library, or is missing: the linker says so on stderr and the program runs on;
- musl (Alpine) in a container: it does not read ``/etc/ld.so.preload``, so nothing happens;
- musl with ``LD_PRELOAD``: the program does not start. A process that may run such programs must not be given that
  variable: use the file;
- statically linked programs, and those that call the kernel driver themselves: nothing is preloaded.

Such a process is a stranger on the card: it is seen by NVML and treated by the card's rule for strangers.
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
    "-ftls-model=initial-exec",  # a thread's own variables without a call; there is room for these few everywhere
    *("-Wall", "-Wextra", "-Werror"),
    *("-Wl,-Bsymbolic", "-Wl,-z,relro", "-Wl,-z,defs"),
)
LIBRARIES = ("-Wl,--no-as-needed", "-l:libdl.so.2", "-l:libpthread.so.0", "-Wl,--as-needed", "-lm")
"""Parts of the C library itself since glibc 2.34, but named all the same, for older ones."""
OLDEST_GLIBC = (2, 17)

_FIRST = "old_glibc.h"
_NAME = "libgpusquad.so"


def library(cache: Path | None = None) -> Path:
    """The library's path; built into ``cache`` (default: the user's) if it is nowhere yet."""
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
            "gcc", "is not installed, and it builds the library for tenants", "apt-get install gcc libc6-dev"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / _NAME
        parts = [str(path) for path in source_files(sources) if path.suffix == ".c"]
        first = ["-include", str(sources / _FIRST)] if (sources / _FIRST).exists() else []
        command = [compiler, *FLAGS, *flags, "-I", str(sources), *first, "-o", str(made), *parts, *LIBRARIES]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NotReady("gcc", f"could not build the library for tenants:\n{done.stderr.strip()}")
        made.chmod(0o755)
        os.replace(made, target)


def reclaimer(path: Path | None = None) -> Callable[[Path], int]:
    """Gives back the bytes of a tenant's dead processes, under the same lock as its living ones."""
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
