"""Parameters: named scalars, and their text form."""

from __future__ import annotations

import math
import re

from gpusquad.model.errors import Invalid
from gpusquad.spec.paths import at, key_text, short
from gpusquad.spec.texts import any_text

Scalar = str | int | float | bool

PARAM_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
MAX_PARAMS = 256
MAX_VALUE_CHARS = 4096
MAX_WHOLE = 2**64


def check_params(value: object, *, may_be_open: bool = False) -> dict[str, Scalar | None]:
    """Validate names and values. ``may_be_open``: None is allowed; the user sets the value at submission."""
    if not isinstance(value, dict):
        raise Invalid("", f"must map names to values, not {short(value)}", "write for example {seed: 1}")
    if len(value) > MAX_PARAMS:
        raise Invalid("", f"has {len(value)} parameters", f"use at most {MAX_PARAMS}")
    for key, item in value.items():
        check_name(key)
        if item is not None or not may_be_open:
            check_scalar(item, key)
    return dict(value)


def check_name(key: object) -> None:
    if not isinstance(key, str) or not PARAM_NAME.fullmatch(key):
        raise Invalid(
            key_text(key), "is not a valid parameter name", "use letters, digits, _ and -; start with a letter or _"
        )


def check_scalar(value: object, where: str) -> Scalar:
    """Validate one value that can be inserted into a text."""
    if isinstance(value, str):
        try:
            return any_text(value, MAX_VALUE_CHARS)
        except Invalid as error:
            raise at(where, error) from None
    if not isinstance(value, (bool, int, float)):
        raise Invalid(where, f"must be a text, a number, true or false, not {short(value)}")
    if not -MAX_WHOLE <= value <= MAX_WHOLE or math.isnan(value):
        raise Invalid(where, f"{short(value)} cannot be written as a number", "put it in quotes")
    return value


def as_text(value: Scalar) -> str:
    """``true`` and ``false`` as in the file. Numbers in Python's form, which parses back to the same number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
