"""Attach records: what each client got when it was attached, stored in the card's folder.

A process cannot change its environment, so attaching the same client again has to give the same answer, also after a
restart of the service.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gpusquad.model.errors import NotReady

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AttachRecord:
    """MPS environment of one client, and its notes for users."""

    env: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_pooled: bool = False
    """It is in the card's MPS pool."""
    uid: int = 0
    job: str = ""


class AttachRecords:
    """Records by client id. Read from the file each time, because another process of the service may have written
    it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def all(self) -> dict[str, AttachRecord]:
        try:
            said = read_json(self._file)
            return {name: AttachRecord(**{**one, "notes": tuple(one["notes"])}) for name, one in said.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError, OSError) as error:
            _log.warning("%s cannot be read and is ignored: %s", self._file, error)
            return {}

    def keep(self, name: str, told: AttachRecord) -> None:
        self._write({**self.all(), name: told})

    def drop(self, name: str) -> None:
        self._write({kept: told for kept, told in self.all().items() if kept != name})

    def _write(self, told: Mapping[str, AttachRecord]) -> None:
        write_whole(self._file, json.dumps({name: asdict(one) for name, one in told.items()}) + "\n")


def make_open(folder: Path) -> None:
    """Create a folder that clients of other users can read, whatever the umask. Existing folders keep their mode."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in missing:
        place.chmod(0o755)


def refuse_others(folder: Path) -> None:
    """Refuse a folder that others can write: they could place links there and make the service overwrite their
    targets."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        raise NotReady("folder", f"{folder} is writable by other users", "remove it; the service creates it again")


def write_whole(file: Path, content: str, mode: int = 0o644) -> None:
    """Replace a file atomically."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_text(content, encoding="utf-8")
    draft.chmod(mode)
    os.replace(draft, file)


def read_json(file: Path) -> dict:
    said = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(said, dict):
        raise ValueError("is not a JSON object")
    return said
