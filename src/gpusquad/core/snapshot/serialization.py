"""Exact conversion of dataclasses to plain data and back, for snapshots.

Unlike ``model.codec``, which reads seconds and units from users, this keeps names and numbers as they are. A field at
its default is omitted, and reading checks every type.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from functools import lru_cache
from typing import Any, TypeVar, Union

from gpusquad.model.errors import Invalid

T = TypeVar("T")
Field = dataclasses.Field
_NUMBER = "number"
"""JSON has no infinity: such a number is written ``{"number": "inf"}``."""


def to_plain(value: Any) -> Any:
    """Convert to dictionaries, lists, text and numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: to_plain(getattr(value, f.name))
            for f in dataclasses.fields(value)
            if f.init and (_is_required(f) or getattr(value, f.name) != _default(f))
        }
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return {_NUMBER: str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise Invalid("snapshot", f"cannot write {type(value).__name__} {value!r} as plain data")


def from_plain(cls: type[T], data: Any, where: str) -> T:
    """Read a ``cls`` written by ``to_plain``. Errors give the full path of the field."""
    if not isinstance(data, dict):
        raise Invalid(where, f"expected named fields, got {type(data).__name__}")
    fields, hints = _fields(cls)
    for name in data:
        if name not in fields:
            raise Invalid(f"{where}.{name}", "is not a known field", f"known here: {', '.join(fields)}")
    values = {}
    for name, each in fields.items():
        if name in data:
            values[name] = read(hints[name], data[name], f"{where}.{name}")
        elif _is_required(each):
            raise Invalid(f"{where}.{name}", "is missing")
    try:
        return cls(**values)
    except Invalid as error:
        raise error.under(where) from None


def read(hint: Any, data: Any, where: str) -> Any:
    """Read a value of the type ``hint``."""
    if hint is Any:
        return _anything(data, where)
    if dataclasses.is_dataclass(hint):
        return from_plain(typing.cast(type, hint), data, where)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _optional(args, data, where)
    if origin is typing.Literal:
        if data not in args:
            raise Invalid(where, f"{data!r} is not one of {', '.join(map(str, args))}")
        return data
    if origin is tuple:
        return _tuple(args, data, where)
    if origin is dict:
        return {key: read(args[1], item, f"{where}.{key}") for key, item in _checked(data, dict, where).items()}
    return _number(data, where) if hint is float else _checked(data, hint, where)


def _optional(args: tuple, data: Any, where: str) -> Any:
    if data is None and type(None) in args:
        return None
    return read(next(a for a in args if a is not type(None)), data, where)


def _tuple(args: tuple, data: Any, where: str) -> tuple:
    items = _checked(data, list, where)
    if args[-1] is Ellipsis:
        return tuple(read(args[0], item, f"{where}[{i}]") for i, item in enumerate(items))
    if len(items) != len(args):
        raise Invalid(where, f"has {len(items)} entries, not {len(args)}")
    return tuple(read(arg, item, f"{where}[{i}]") for i, (arg, item) in enumerate(zip(args, items, strict=True)))


def _checked(data: Any, kind: type, where: str) -> Any:
    if not isinstance(data, kind) or (kind is int and isinstance(data, bool)):
        raise Invalid(where, f"expected {kind.__name__}, got {type(data).__name__}")
    return data


def _number(data: Any, where: str) -> float:
    if isinstance(data, dict) and set(data) == {_NUMBER} and data[_NUMBER] in ("inf", "-inf"):
        return float(data[_NUMBER])
    if isinstance(data, bool) or not isinstance(data, (int, float)) or not math.isfinite(data):
        raise Invalid(where, f"expected a number, got {data!r}")
    return float(data)


def _anything(data: Any, where: str) -> Any:
    """Read the key of an order policy: text, numbers and lists of them."""
    if isinstance(data, list):
        return tuple(_anything(item, where) for item in data)
    if isinstance(data, dict):
        return _number(data, where)
    return data


@lru_cache(maxsize=256)
def _fields(cls: type) -> tuple[dict[str, Field], dict[str, Any]]:
    return {f.name: f for f in dataclasses.fields(cls) if f.init}, typing.get_type_hints(cls)


def _is_required(field: Field) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default(field: Field) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
