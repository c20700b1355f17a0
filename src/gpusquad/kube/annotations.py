"""Labels and annotations of pods and their owners, read with bounds: whoever may make a pod may write anything here."""

from __future__ import annotations

from collections.abc import Mapping

from gpusquad.kube.errors import MalformedField, short
from gpusquad.kube.objects import Object, annotations_of, labels_of
from gpusquad.model.errors import Invalid
from gpusquad.model.units import parse_us

MOST_TEXT = 256
MOST_COUNT = 100_000
"""No gang and no number of replicas is larger."""

_MOST_DIGITS = 10


def at(name: str) -> str:
    """Where an annotation stands, for an error."""
    return f"metadata.annotations[{name}]"


def text_of(said: Mapping[str, str], name: str) -> str:
    """A short text on one line; empty where there is none."""
    value = said.get(name, "")
    if not isinstance(value, str) or len(value) > MOST_TEXT or not value.isprintable():
        raise MalformedField(
            at(name), f"{short(value)} is not a short text on one line", f"keep it to {MOST_TEXT} letters"
        )
    return value.strip()


def flag_of(said: Mapping[str, str], name: str) -> bool | None:
    """``"true"``, ``"false"``, or not said."""
    value = text_of(said, name)
    if value not in ("", "true", "false"):
        raise MalformedField(at(name), f"{short(value)} is neither true nor false", 'write "true" or "false"')
    return None if value == "" else value == "true"


def time_of(said: Mapping[str, str], name: str) -> int | None:
    """A time such as ``2h`` in microseconds; more than none."""
    value = text_of(said, name)
    if not value:
        return None
    try:
        result = parse_us(value, at(name))
    except Invalid as error:
        raise MalformedField(error.field, error.problem, error.cure) from None
    if result < 1:
        raise MalformedField(at(name), f"{short(value)} is no time at all", "write for example 90s or 2h")
    return result


def count(value: object, path: str, *, default: int | None = None, low: int = 0) -> int:
    """A number of pods, as a JSON number or as the text of an annotation."""
    if value is None and default is not None:
        return default
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= _MOST_DIGITS:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= MOST_COUNT:
        raise MalformedField(
            path, f"{short(value)} is not a number of pods", f"write a whole number, {low} to {MOST_COUNT}"
        )
    return value


def either(item: Object, name: str) -> str:
    """An annotation, or a label of that name."""
    return text_of(annotations_of(item), name) or text_of(labels_of(item), name)
