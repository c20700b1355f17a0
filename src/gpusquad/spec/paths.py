"""Paths of fields in a job file, such as ``roles[1].gpus``, and values for error messages."""

from __future__ import annotations

import reprlib

from gpusquad.model.errors import Invalid

_MAX_KEY_CHARS = 64
_MAX_PROBLEM_CHARS = 300
_MAX_SHOWN_NUMBER = 2**64


def join(where: str, name: str) -> str:
    """Append a field name or an index to a path."""
    if not where or not name:
        return where or name
    return where + name if name.startswith("[") else f"{where}.{name}"


def key_text(key: object) -> str:
    """An untrusted key for a path, short and on one line."""
    text = str(key)[:_MAX_KEY_CHARS]
    return text if text.isprintable() else ascii(text)


def short(value: object) -> str:
    """An untrusted value for an error message, shortened if it is large or deeply nested."""
    if isinstance(value, int) and abs(value) > _MAX_SHOWN_NUMBER:
        return "a very large number"  # Python refuses to format numbers with thousands of digits
    return _repr.repr(value)


def at(where: str, error: Invalid) -> Invalid:
    """The same error with a path from the top of the file."""
    problem = error.problem
    if len(problem) > _MAX_PROBLEM_CHARS:
        problem = problem[:_MAX_PROBLEM_CHARS] + "…"
    return Invalid(join(where, error.field) or "job file", problem, error.cure)


_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 60
_repr.maxlevel = 2
