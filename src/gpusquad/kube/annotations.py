"""Bounded parsing of labels and annotations. Any user who may create a pod may write anything there."""

from __future__ import annotations

from collections.abc import Mapping

from gpusquad.kube.errors import MalformedField, short
from gpusquad.kube.objects import Object, annotations_of, labels_of
from gpusquad.model.errors import Invalid
from gpusquad.model.units import parse_us

MAX_TEXT = 256
MAX_COUNT = 100_000
"""Largest size of a gang and largest number of replicas."""

_MAX_DIGITS = 10


def at(name: str) -> str:
    """Path of an annotation, for errors."""
    return f"metadata.annotations[{name}]"


def text_of(annotations: Mapping[str, str], name: str) -> str:
    """A short text on one line; empty if there is none."""
    value = annotations.get(name, "")
    if not isinstance(value, str) or len(value) > MAX_TEXT or not value.isprintable():
        raise MalformedField(
            at(name), f"{short(value)} is not a short text on one line", f"write at most {MAX_TEXT} characters"
        )
    return value.strip()


def flag_of(annotations: Mapping[str, str], name: str) -> bool | None:
    """None: there is no such annotation."""
    value = text_of(annotations, name)
    if value not in ("", "true", "false"):
        raise MalformedField(at(name), f"{short(value)} is neither true nor false", 'write "true" or "false"')
    return None if value == "" else value == "true"


def time_of(annotations: Mapping[str, str], name: str) -> int | None:
    """A duration above zero such as ``2h``, in microseconds."""
    value = text_of(annotations, name)
    if not value:
        return None
    try:
        result = parse_us(value, at(name))
    except Invalid as error:
        raise MalformedField(error.field, error.problem, error.cure) from None
    if result < 1:
        raise MalformedField(at(name), f"{short(value)} is not above zero", "write for example 90s or 2h")
    return result


def count(value: object, path: str, *, default: int | None = None, low: int = 0) -> int:
    """A number of pods, as a JSON number or as the text of an annotation."""
    if value is None and default is not None:
        return default
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= _MAX_DIGITS:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= MAX_COUNT:
        raise MalformedField(
            path, f"{short(value)} is not a number of pods", f"write a whole number, {low} to {MAX_COUNT}"
        )
    return value


def either(item: Object, name: str) -> str:
    """The annotation of that name, or else the label."""
    return text_of(annotations_of(item), name) or text_of(labels_of(item), name)
