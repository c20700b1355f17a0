"""Where in a job file: ``roles[1].gpus``. And how a value from there is shown in an error."""

from __future__ import annotations

import reprlib

from gpusquad.model.errors import Invalid

_MOST_KEY = 64
_MOST_PROBLEM = 300
_SHOWN_NUMBER = 2**64


def join(where: str, name: str) -> str:
    """A path and what follows it."""
    if not where or not name:
        return where or name
    return where + name if name.startswith("[") else f"{where}.{name}"


def key_text(key: object) -> str:
    """A key from outside, fit for a path: short and on one line."""
    text = str(key)[:_MOST_KEY]
    return text if text.isprintable() else ascii(text)


def short(value: object) -> str:
    """A value from outside, fit for an error, however large or deep it is."""
    if isinstance(value, int) and abs(value) > _SHOWN_NUMBER:
        return "a very large number"  # Python refuses to write those with thousands of digits
    return _repr.repr(value)


def at(where: str, error: Invalid) -> Invalid:
    """The same error seen from the whole file."""
    problem = error.problem
    if len(problem) > _MOST_PROBLEM:
        problem = problem[:_MOST_PROBLEM] + "…"
    return Invalid(join(where, error.field) or "job file", problem, error.cure)


_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 60
_repr.maxlevel = 2
