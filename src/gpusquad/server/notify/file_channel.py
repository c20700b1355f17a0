"""A channel without a network: ``file://NAME`` appends JSON lines to a file of one folder."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from gpusquad.model.errors import Invalid
from gpusquad.server.notify.messages import NoticeMessage

MAX_FILE_BYTES = 16 * 2**20
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def file_name(url: str) -> str:
    """The name in ``file://NAME``. It has no slash, so it cannot leave the folder."""
    name = url.partition("://")[2]
    if not _NAME.fullmatch(name):
        raise Invalid("url", "must be file:// and one plain name", "for example file://notices.jsonl")
    return name


def append(folder: Path, name: str, message: NoticeMessage) -> None:
    """Append one line: the notice as data, with its text. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    line = json.dumps({"title": message.title, "body": message.body, **(message.payload or {})}).encode() + b"\n"
    # Never follow a link or wait for a pipe of that name.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    opened = os.open(folder / name, flags, 0o600)
    try:
        if os.fstat(opened).st_size + len(line) > MAX_FILE_BYTES:
            raise OSError(f"{name} is full ({MAX_FILE_BYTES} bytes)")
        os.write(opened, line)
    finally:
        os.close(opened)
