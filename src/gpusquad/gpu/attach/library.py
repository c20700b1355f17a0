"""The library as tenants find it: a file that any user of the machine can load, and that stays where it is."""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import lru_cache
from pathlib import Path

from gpusquad.gpu import build
from gpusquad.gpu.attach.records import make_open
from gpusquad.gpu.attach.settings import CardSharingSettings
from gpusquad.model.errors import NotReady

ROOTS = Path("/var/lib/gpusquad/lib")
"""Root's own folders are closed to others, and a library that cannot be read is left out without an error."""


def client_library(settings: CardSharingSettings) -> Path:
    """A copy named by its content: tenants that have loaded an older one keep it."""
    built = settings.library or _built()
    if settings.library is None and not built.exists():  # caches are cleared; a missing library holds nobody
        _built.cache_clear()
        built = _built()
    folder = settings.library_folder or (ROOTS if os.geteuid() == 0 else None)
    path = _published(built, folder) if folder is not None else built
    if any(letter in str(path) for letter in " :\t"):
        raise NotReady("library", f"{path} cannot be preloaded", "use a path without spaces and colons")
    return path.absolute()


@lru_cache(maxsize=1)
def _built() -> Path:
    try:
        return build.library()
    except RuntimeError as error:  # a user id that has no home
        raise NotReady("library", f"there is no place to build it: {error}", "set HOME or XDG_CACHE_HOME") from None


def _published(built: Path, folder: Path) -> Path:
    content = built.read_bytes()
    target = folder / hashlib.sha256(content).hexdigest()[:16] / "libgpusquad.so"
    make_open(target.parent)
    for place in (target.parent, folder):
        place.chmod(0o755)  # also if somebody has closed it since
    if _has(target, content):
        return target
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copyfile(built, draft)
    draft.chmod(0o755)
    os.replace(draft, target)
    return target


def _has(file: Path, content: bytes) -> bool:
    """All of it: after a power cut a file may have its name and not its content, and then it is loaded by nobody."""
    try:
        return file.read_bytes() == content
    except FileNotFoundError:
        return False
