"""Files of estimators on this machine: what they print, and what their answers depend on."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpusquad.core.ports import Launch
from gpusquad.engines.local.names import checkpoint_path, run_path
from gpusquad.server.services.jobs.estimator_answers import MAX_OUTPUT_BYTES

MAX_FILES = 2000
MAX_NAMED_BYTES = 4 << 20
"""Of a file whose content is compared. Larger ones are compared by size and time."""
SOURCES = frozenset({".py", ".json", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".sh"})
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})
_ERROR_BYTES = 4096
_LOG = re.compile(r"0\.(\d+)\.log")
_ENVIRONMENT = ("PATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH")


class EstimatorFiles:
    """Implements ``EstimatorRunner`` for the local engine."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def fingerprint(self, launch: Launch, argv: Sequence[str]) -> str | None:
        """Of the program: its words, folder, user and environment; the content of files that its words name; and name,
        size and time of the source files below its folder. None: too many files.
        """
        folder = Path(launch.workdir or "/")
        digest = hashlib.sha256()
        environment = {name: os.environ.get(name, "") for name in _ENVIRONMENT} | dict(launch.tasks[0].env)
        for part in (launch.tenant, launch.run_as, folder, *argv, *sorted(environment.items()),
                     *sorted(launch.secrets.items())):  # fmt: skip
            digest.update(repr(part).encode("utf-8", "surrogateescape") + b"\0")
        for path in _named_files(argv, folder):
            digest.update(repr((str(path), _content(path))).encode())
        for count, (path, found) in enumerate(_sources(folder) if launch.workdir else ()):
            if count >= MAX_FILES:
                return None
            state = path, found.st_size, found.st_mtime_ns, found.st_ino
            digest.update(repr(state).encode("utf-8", "backslashreplace"))
        return digest.hexdigest()

    def output(self, job_id: str, attempt: int) -> tuple[bytes | None, str]:
        """The task's user owns the folder of the output, so that the file may be anything."""
        folder = run_path(self._home, job_id, attempt)
        return _read_regular(folder / "progress" / "0.out", MAX_OUTPUT_BYTES + 1), _last_line(folder / "logs")

    def forget(self, job_id: str) -> None:
        for folder in (run_path(self._home, job_id, 0).parent, checkpoint_path(self._home, job_id)):
            shutil.rmtree(folder, ignore_errors=True)


def _named_files(argv: Sequence[str], folder: Path) -> list[Path]:
    """Files that the words name, also inside a shell text."""
    words: list[str] = []
    for word in argv:
        try:
            words += shlex.split(word)
        except ValueError:
            words.append(word)
    paths = dict.fromkeys(folder / word for word in words if word and "\0" not in word and len(word) < 4096)
    return [path for path in paths if path.is_file()]


def _content(path: Path) -> object:
    try:
        found = path.stat()
        if found.st_size > MAX_NAMED_BYTES:
            return found.st_size, found.st_mtime_ns
        data = _read_regular(path, MAX_NAMED_BYTES, follows=True)
        return None if data is None else hashlib.sha256(data).hexdigest()
    except OSError as error:
        return error.errno


def _sources(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Source files below a folder, in a fixed order. Hidden folders and installed packages are left out."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not name.startswith("."))
        for name in sorted(names):
            if os.path.splitext(name)[1] in SOURCES:
                path = os.path.join(parent, name)
                try:
                    yield path, os.lstat(path)
                except OSError:
                    continue


def _read_regular(path: Path, most: int, *, follows: bool = False) -> bytes | None:
    """None unless it is a regular file. Never waits, for example for a writer of a pipe."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follows else os.O_NOFOLLOW))
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read(most) if stat.S_ISREG(os.fstat(handle).st_mode) else None


def _last_line(logs: Path) -> str:
    """Of the error output. The supervisor writes these files."""
    try:
        parts = sorted((int(found[1]), path) for path in logs.iterdir() if (found := _LOG.fullmatch(path.name)))
    except OSError:
        return ""
    for _, path in reversed(parts):
        data = path.read_bytes()[-_ERROR_BYTES:].decode("utf-8", "replace")
        lines = [line.strip() for line in data.splitlines() if line.strip()]
        if lines:
            return lines[-1]
    return ""
