"""Finds plug-ins: policies, predictors, trace readers.

A plug-in is one class in one file, registered by a decorator::

    @register("order", "las")
    @dataclass(frozen=True)
    class LeastAttainedService:
        '''Jobs with the least GPU time so far go first.'''
        quantum_s: float = 3600.0

Its fields are its parameters, so ``las:quantum_s=60`` creates one. Other packages add plug-ins by an entry point in the
group ``gpusquad`` that names a module to import.
"""

from __future__ import annotations

import dataclasses
import importlib
import logging
import math
import pkgutil
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, TypeVar, Union

from gpusquad.model.errors import Invalid

T = TypeVar("T", bound=type)

_PACKAGES = {
    "order": "gpusquad.policies.order",
    "plan": "gpusquad.policies.plan",
    "place": "gpusquad.policies.place",
    "divide": "gpusquad.policies.divide",
    "predictor": "gpusquad.predict",
    "reader": "gpusquad.sim.traces",
}
_found: dict[str, dict[str, type]] = {kind: {} for kind in _PACKAGES}
_deprecated: dict[str, dict[str, str]] = {kind: {} for kind in _PACKAGES}
"""By kind: deprecated names and the names that replace them."""
_searched: set[str] = set()
_warned: set[tuple[str, str]] = set()
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parameter:
    """One typed parameter of a plug-in."""

    name: str
    type: str
    default: object


@dataclass(frozen=True)
class RegistryEntry:
    """Description of a plug-in for users."""

    kind: str
    name: str
    summary: str
    parameters: tuple[Parameter, ...]


def register(kind: str, name: str, deprecated: tuple[str, ...] = ()) -> Callable[[T], T]:
    """Register a class as ``name`` of its ``kind``. ``deprecated``: old names, which are accepted with a warning."""
    if kind not in _found:
        raise ValueError(f"unknown kind {kind!r}; there are {', '.join(_found)}")

    def keep(cls: T) -> T:
        other = _found[kind].get(name)
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"{kind} {name!r} is already {other.__module__}.{other.__qualname__}")
        _found[kind][name] = cls
        _deprecated[kind].update(dict.fromkeys(deprecated, name))
        return cls

    return keep


def forget(kind: str, name: str) -> None:
    """Remove a plug-in (tests and reloads)."""
    _found[kind].pop(name, None)


def names(kind: str) -> list[str]:
    _search(kind)
    return sorted(_found[kind])


def find(kind: str, name: str) -> type:
    """The class registered under this name."""
    _search(kind)
    name = _current(kind, name)
    try:
        return _found[kind][name]
    except KeyError:
        raise Invalid(kind, f"{kind} {name!r} does not exist", f"choose from {', '.join(names(kind))}") from None


def _current(kind: str, name: str) -> str:
    """The name that replaces a deprecated one, with one warning per process."""
    new = _deprecated[kind].get(name)
    if new is None or name in _found[kind]:
        return name
    if (kind, name) not in _warned:
        _warned.add((kind, name))
        _log.warning("%s %r is deprecated; use %r", kind, name, new)
    return new


def current_spec(kind: str, spec: str) -> str:
    """The same text, with the current name if its name is deprecated."""
    _search(kind)
    name, colon, parameters = spec.partition(":")
    current = _current(kind, name.strip())
    return spec if current == name.strip() else f"{current}{colon}{parameters}"


def create(kind: str, spec: str) -> Any:
    """Create a plug-in from text: ``easy`` or ``easy:backfill=shortest,reservations=2``."""
    name, colon, rest = spec.partition(":")
    cls = find(kind, name.strip())
    field = f"{kind}.{name.strip()}"
    allowed = {f.name: f for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else {}
    items = [part.strip() for part in rest.split(",") if part.strip()]
    known = f"parameters: {', '.join(allowed) or 'none'}"
    if colon and not items:
        raise Invalid(field, "no parameter follows the colon", f"omit the colon; {known}")
    values = _values(items, field, typing.get_type_hints(cls), allowed, known)
    try:
        return cls(**values)
    except Invalid as error:
        if error.field not in allowed:
            raise
        raise error.under(field) from None


def describe(kind: str | None = None) -> list[RegistryEntry]:
    """All plug-ins of a kind (or of all kinds), with summary and parameters."""
    result = []
    for each in [kind] if kind else list(_found):
        for name in names(each):
            cls = _found[each][name]
            summary = (cls.__doc__ or "").strip().split("\n")[0]
            result.append(RegistryEntry(each, name, summary, _parameters(cls)))
    return result


def _values(
    items: list[str], field: str, hints: dict[str, Any], allowed: dict[str, dataclasses.Field], known: str
) -> dict[str, object]:
    """Read parameters, each at most once, by their types."""
    values: dict[str, object] = {}
    for item in items:
        key, equals, text = item.partition("=")
        key = key.strip()
        if key not in allowed or not equals:
            raise Invalid(field, f"cannot read {item!r}", known)
        if key in values:
            raise Invalid(f"{field}.{key}", "is given twice", "keep one of them")
        values[key] = _meant(_typed(text.strip(), hints[key], f"{field}.{key}"), text.strip(), f"{field}.{key}")
    return values


def _meant(value: object, text: str, field: str) -> object:
    """Accept ``inf`` as no limit, but refuse NaN and numbers too large for a float. A plug-in may still refuse
    ``inf``."""
    if isinstance(value, float) and not math.isfinite(value) and text.lower() != "inf":
        raise Invalid(field, f"{text!r} is not a finite number", "write it in digits, or inf for no limit")
    return value


def _parameters(cls: type) -> tuple[Parameter, ...]:
    if not dataclasses.is_dataclass(cls):
        return ()
    hints = typing.get_type_hints(cls)
    return tuple(
        Parameter(f.name, _type_text(f.type, hints[f.name]), f.default) for f in dataclasses.fields(cls) if f.init
    )


def _type_text(written: object, hint: Any) -> str:
    """The type as written in the file. Choices are spelled out, also if the file has a name for them."""
    if typing.get_origin(hint) is typing.Literal:
        return f"Literal[{', '.join(repr(choice) for choice in typing.get_args(hint))}]"
    return str(written)


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
            raise Invalid(field, f"{text!r} is not one of {', '.join(map(str, choices))}")
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
    """Import the modules of a kind and the entry points, once."""
    if kind not in _found:
        raise Invalid("kind", f"unknown kind {kind!r}", f"choose from {', '.join(_found)}")
    if kind in _searched:
        return
    _searched.add(kind)
    package = importlib.import_module(_PACKAGES[kind])
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    if "entry points" not in _searched:
        _searched.add("entry points")
        for point in entry_points(group="gpusquad"):
            point.load()
