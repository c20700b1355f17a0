"""Check that a program can run before anything starts, because all tasks of a gang start or none."""

from __future__ import annotations

import os

_STRING_BYTES = 128 * 1024
"""The kernel's limit for one argument or variable."""
_SPARE_BYTES = 4096
_POINTER_BYTES = 8
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


class CannotStart(Exception):
    """Why a task cannot start, as a message for its owner."""


def find(command: list[str], env: dict[str, str]) -> str:
    """The file to execute, searched from the task's working folder, as its user, in its own PATH."""
    _check_strings(command, env)
    path = _search(command[0], env.get("PATH", _DEFAULT_PATH))
    _check_interpreter(path)
    return path


def _search(name: str, search_path: str) -> str:
    if "/" in name:
        candidates = [name]
    else:
        candidates = [os.path.join(folder or ".", name) for folder in search_path.split(":")]
    found = [path for path in candidates if os.path.isfile(path)]
    if not found:
        raise CannotStart(f"command not found: {name}")
    for path in found:
        if os.access(path, os.X_OK):
            return path
    raise CannotStart(f"not executable: {found[0]}")


def _check_interpreter(path: str) -> None:
    try:
        with open(path, "rb") as file:
            first = file.readline(256)
    except OSError:
        return  # executable but not readable: the kernel will decide
    if first.startswith(b"#!"):
        interpreter = os.fsdecode((first[2:].split() or [b""])[0])
        if not os.access(interpreter, os.X_OK):
            raise CannotStart(f"{path} wants the interpreter {interpreter or '(none)'}, which cannot be run")


def _check_strings(command: list[str], env: dict[str, str]) -> None:
    if not command or not command[0]:
        raise CannotStart("its command is empty")
    for name in env:
        if not name or "=" in name:
            raise CannotStart(f"{name!r} cannot be the name of a variable")
    strings = [os.fsencode(part) for part in command] + [os.fsencode(f"{name}={env[name]}") for name in env]
    if any(b"\0" in string for string in strings):
        raise CannotStart("its command or a variable holds a zero byte")
    if any(len(string) >= _STRING_BYTES for string in strings):
        raise CannotStart(f"an argument or a variable is longer than {_STRING_BYTES} bytes")
    total_bytes = sum(len(string) + 1 + _POINTER_BYTES for string in strings) + _SPARE_BYTES
    if total_bytes > os.sysconf("SC_ARG_MAX"):
        raise CannotStart("its command and variables together are too long")
