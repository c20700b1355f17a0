"""Small files that appear completely or not at all."""

from __future__ import annotations

import contextlib
import os


def place(path: str, data: bytes) -> bool:
    """Create the file with this content. False: it exists already and is unchanged.

    A hard link decides who was first, and the content is complete before the name exists. Neither a crash nor a full
    disk leaves half a file under that name.
    """
    draft = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        write_new(draft, data)
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
    return True


def write_new(path: str, data: bytes) -> None:
    """Create the file; an error if it exists."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        write_all(handle, data, 0)
    finally:
        os.close(handle)


def write_all(handle: int, data: bytes, offset: int) -> None:
    """Write all bytes at that offset."""
    view = memoryview(data)
    while view:
        done = os.pwrite(handle, view, offset)
        view, offset = view[done:], offset + done


def read(path: str) -> bytes | None:
    """None: there is no such file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
