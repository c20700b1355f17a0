"""External names, checked before they become parts of a path."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gpusquad.engines.local.run_folder import RunFolder
from gpusquad.model.errors import Invalid

Key = tuple[str, int]
"""A job and its attempt."""

_JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_MAX = 10**9


def checked(job_id: str, attempt: int) -> Key:
    """Raises Invalid unless both can be folder names."""
    if not isinstance(job_id, str) or _JOB_ID.fullmatch(job_id) is None:
        raise Invalid("job", f"{str(job_id)[:100]!r} cannot be an id", "letters, digits, dot, dash and underscore")
    return job_id, checked_number("attempt", attempt)


def checked_number(field: str, number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < _MAX:
        raise Invalid(field, f"{str(number)[:100]!r} is not a count from 0")
    return number


def run_path(home: Path, job_id: str, attempt: int) -> Path:
    """``runs/JOB/ATTEMPT``."""
    checked(job_id, attempt)
    return home / "runs" / job_id / str(attempt)


def checkpoint_path(home: Path, job_id: str) -> Path:
    """``checkpoints/JOB``: outlives attempts."""
    checked(job_id, 0)
    return home / "checkpoints" / job_id


def run_folder(home: Path, key: Key) -> RunFolder:
    return RunFolder(str(run_path(home, *key)))


def all_keys(home: Path) -> list[Key]:
    """Every run folder. Folders that do not look like ours are ignored."""
    return [
        (job.name, int(attempt.name))
        for job in _folders(str(home / "runs"))
        if _JOB_ID.fullmatch(job.name)
        for attempt in _folders(job.path)
        if attempt.name.isascii() and attempt.name.isdecimal() and str(int(attempt.name)) == attempt.name
    ]


def _folders(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
