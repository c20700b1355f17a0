"""Finds everything that can be plugged in: policies, predictors, trace readers.

A plug-in is one class in one file, registered where it stands::

    @register("order", "las")
    @dataclass(frozen=True)
    class LeastAttainedService:
        '''Jobs that have had the least GPU time go first.'''
        quantum_s: float = 3600.0

Its fields are its parameters, so ``las:quantum_s=60`` makes one. Packages of others join by an entry point in
the group ``gpusquad`` that names a module to import.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, TypeVar, Union

from gpusquad.model.errors import Invalid

T = TypeVar("T", bound=type)

_ROOMS = {
    "order": "gpusquad.policies.order",
    "plan": "gpusquad.policies.plan",
    "place": "gpusquad.policies.place",
    "divide": "gpusquad.policies.divide",
    "predictor": "gpusquad.predict",
    "reader": "gpusquad.sim.traces",
}
_found: dict[str, dict[str, type]] = {kind: {} for kind in _ROOMS}
_searched: set[str] = set()


@dataclass(frozen=True)
class Parameter:
    """One typed parameter of a plug-in."""

    name: str
    type: str
    default: object


@dataclass(frozen=True)
class Described:
    """What a person wants to know of a plug-in."""

    kind: str
    name: str
    summary: str
    parameters: tuple[Parameter, ...]


def register(kind: str, name: str) -> Callable[[T], T]:
    """Make a class known as ``name`` among its ``kind``."""
    if kind not in _found:
        raise ValueError(f"unknown kind {kind!r}; there are {', '.join(_found)}")

    def keep(cls: T) -> T:
        other = _found[kind].get(name)
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"{kind} {name!r} is already {other.__module__}.{other.__qualname__}")
        _found[kind][name] = cls
        return cls

    return keep


def forget(kind: str, name: str) -> None:
    """Take a plug-in out again (tests and reloads)."""
    _found[kind].pop(name, None)


def names(kind: str) -> list[str]:
    _search(kind)
    return sorted(_found[kind])


def find(kind: str, name: str) -> type:
    """The class registered under that name."""
    _search(kind)
    try:
        return _found[kind][name]
    except KeyError:
        raise Invalid(kind, f"there is no {kind} {name!r}", f"choose from {', '.join(names(kind))}") from None


def create(kind: str, spec: str) -> Any:
    """Make one from text: ``easy`` or ``easy:backfill=shortest,reservations=2``."""
    name, _, rest = spec.partition(":")
    cls = find(kind, name.strip())
    hints = typing.get_type_hints(cls)
    allowed = {f.name: f for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else {}
    values: dict[str, object] = {}
    for item in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, text = item.partition("=")
        key = key.strip()
        if key not in allowed or not equals:
            known = ", ".join(allowed) or "none"
            raise Invalid(f"{kind}.{name}", f"cannot read {item!r}", f"parameters: {known}")
        values[key] = _typed(text.strip(), hints[key], f"{kind}.{name}.{key}")
    return cls(**values)


def describe(kind: str | None = None) -> list[Described]:
    """Every plug-in of a kind (of all kinds), with its one-line summary and parameters."""
    result = []
    for each in [kind] if kind else list(_found):
        for name in names(each):
            cls = _found[each][name]
            summary = (cls.__doc__ or "").strip().split("\n")[0]
            result.append(Described(each, name, summary, _parameters(cls)))
    return result


def _parameters(cls: type) -> tuple[Parameter, ...]:
    if not dataclasses.is_dataclass(cls):
        return ()
    return tuple(Parameter(f.name, str(f.type), f.default) for f in dataclasses.fields(cls) if f.init)


def _typed(text: str, hint: Any, field: str) -> object:
    origin = typing.get_origin(hint)
    if origin in (Union, types.UnionType):
        options = [a for a in typing.get_args(hint) if a is not type(None)]
        if text.lower() in ("none", "") and len(options) < len(typing.get_args(hint)):
            return None
        return _typed(text, options[0], field)
    if origin is typing.Literal:
        choices = typing.get_args(hint)
        if text not in choices:
            raise Invalid(field, f"{text!r} is none of {', '.join(map(str, choices))}")
        return text
    if hint is bool:
        if text.lower() not in ("true", "false", "yes", "no", "1", "0"):
            raise Invalid(field, f"{text!r} is neither true nor false")
        return text.lower() in ("true", "yes", "1")
    try:
        return hint(text)
    except ValueError:
        raise Invalid(field, f"{text!r} is not {'a whole number' if hint is int else 'a number'}") from None


def _search(kind: str) -> None:
    """Import a room once, and what entry points name."""
    if kind not in _found:
        raise Invalid("kind", f"unknown kind {kind!r}", f"choose from {', '.join(_found)}")
    if kind in _searched:
        return
    _searched.add(kind)
    room = importlib.import_module(_ROOMS[kind])
    for module in pkgutil.iter_modules(room.__path__):
        importlib.import_module(f"{room.__name__}.{module.name}")
    if "entry points" not in _searched:
        _searched.add("entry points")
        for point in entry_points(group="gpusquad"):
            point.load()
