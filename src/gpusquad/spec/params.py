"""Parameters: scalars with names, and how they read inside a text."""

from __future__ import annotations

import math
import re

from gpusquad.model.errors import Invalid
from gpusquad.spec.paths import at, key_text, short
from gpusquad.spec.texts import any_text

Scalar = str | int | float | bool

PARAM_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
MOST_PARAMS = 256
MOST_VALUE_CHARS = 4096
MOST_WHOLE = 2**64


def check_params(value: object, *, may_be_open: bool = False) -> dict[str, Scalar | None]:
    """Names with values. ``may_be_open``: a value may be left to who submits."""
    if not isinstance(value, dict):
        raise Invalid("", f"expected names with values, got {short(value)}", "write for example {seed: 1}")
    if len(value) > MOST_PARAMS:
        raise Invalid("", f"has {len(value)} parameters", f"keep it to {MOST_PARAMS}")
    for key, item in value.items():
        check_name(key)
        if item is not None or not may_be_open:
            check_scalar(item, key)
    return dict(value)


def check_name(key: object) -> None:
    if not isinstance(key, str) or not PARAM_NAME.fullmatch(key):
        raise Invalid(
            key_text(key), "is not the name of a parameter", "use letters, digits, _ and -; begin with a letter"
        )


def check_scalar(value: object, where: str) -> Scalar:
    """One value that reads well inside a text."""
    if isinstance(value, str):
        try:
            return any_text(value, MOST_VALUE_CHARS)
        except Invalid as error:
            raise at(where, error) from None
    if not isinstance(value, (bool, int, float)):
        raise Invalid(where, f"expected a text, a number, true or false, got {short(value)}")
    if not -MOST_WHOLE <= value <= MOST_WHOLE or math.isnan(value):
        raise Invalid(where, f"{short(value)} is not a number that can be written out", "put it in quotes")
    return value


def as_text(value: Scalar) -> str:
    """``true`` and ``false`` as in the file; numbers as Python writes them, which reads back to the same number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
