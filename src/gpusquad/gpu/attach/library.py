"""The shim for clients: a file that any user of the machine can load and that does not move."""

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
"""Others cannot read root's folders, and the loader skips an unreadable library without an error."""


def client_library(settings: CardSharingSettings) -> Path:
    """Path of the copy, named by its content: clients that loaded an older one keep it."""
    built = settings.library or _built()
    if settings.library is None and not built.exists():  # caches may be cleared; a missing library enforces nothing
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
    except RuntimeError as error:  # a user without a home
        raise NotReady("library", f"has no folder to be built in: {error}", "set HOME or XDG_CACHE_HOME") from None


def _published(built: Path, folder: Path) -> Path:
    content = built.read_bytes()
    target = folder / hashlib.sha256(content).hexdigest()[:16] / "libgpusquad.so"
    make_open(target.parent)
    for place in (target.parent, folder):
        place.chmod(0o755)  # also if its mode was changed since
    if _has(target, content):
        return target
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copyfile(built, draft)
    draft.chmod(0o755)
    os.replace(draft, target)
    return target


def _has(file: Path, content: bytes) -> bool:
    """Compare the whole content: after a power failure a file may exist without it, and would not load."""
    try:
        return file.read_bytes() == content
    except FileNotFoundError:
        return False
