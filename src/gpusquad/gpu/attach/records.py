"""What tenants were told when they were attached: kept in the card's folder, for it cannot be told anew.

A process has its environment for life; whoever attaches the same holder again, after a restart of the service too, has
to give the same answer.
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
    """One tenant's environment as far as MPS is concerned, and what people were told."""

    env: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_pooled: bool = False
    """It is a client of the card's MPS pool."""
    uid: int = 0
    job: str = ""


class AttachRecords:
    """By tenant id. Read from the file each time: another process of the service may have written to it."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def all(self) -> dict[str, AttachRecord]:
        try:
            said = read_json(self._file)
            return {name: AttachRecord(**{**one, "notes": tuple(one["notes"])}) for name, one in said.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError, OSError) as error:
            _log.warning("%s cannot be read, and what it said is forgotten: %s", self._file, error)
            return {}

    def keep(self, name: str, told: AttachRecord) -> None:
        self._write({**self.all(), name: told})

    def drop(self, name: str) -> None:
        self._write({kept: told for kept, told in self.all().items() if kept != name})

    def _write(self, told: Mapping[str, AttachRecord]) -> None:
        write_whole(self._file, json.dumps({name: asdict(one) for name, one in told.items()}) + "\n")


def make_open(folder: Path) -> None:
    """Tenants of other users look into it, whatever the service's umask is. What was there stays as somebody wanted."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in missing:
        place.chmod(0o755)


def refuse_others(folder: Path) -> None:
    """Whoever may write to a folder may put links there, and have the service overwrite what they name."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        raise NotReady("folder", f"others may write to {folder}", "remove it, and let the service make it")


def write_whole(file: Path, content: str, mode: int = 0o644) -> None:
    """Never half of it."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_text(content, encoding="utf-8")
    draft.chmod(mode)
    os.replace(draft, file)


def read_json(file: Path) -> dict:
    said = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(said, dict):
        raise ValueError("it is no JSON object")
    return said
