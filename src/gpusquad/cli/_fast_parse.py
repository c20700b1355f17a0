"""Plain values without a validation library.

Typer hands every value to Pydantic, and importing that takes longer than all the rest of a short verb. Most values are
left out, plain text or whole numbers: those are taken as they are. For all others Typer goes its own way, so what it
accepts and what it says of bad values stays the same. Where Typer works otherwise, nothing here has an effect.
"""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

import typer

_SLOT = "_runtime_param"
"""Where Typer keeps the way a parameter's values are read, once it has made it."""


def quicken(command: Any) -> Any:
    """The same command, with quick ways for plain values, in its sub-commands too."""
    for param in command.get_params(typer.Context(command)):  # --help is among them, and not in ``params``
        if getattr(param, _SLOT, command) is None and _is_plain(param):
            setattr(param, _SLOT, Quick())
    for inner in getattr(command, "commands", {}).values():
        quicken(inner)
    return command


class Quick:
    """Reads plain values; for the first other one it steps aside for good."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        read = _read(value, param)
        if read is not None:
            return read
        setattr(param, _SLOT, None)
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _is_plain(param: Any) -> bool:
    kind = getattr(param, "type_descriptor", None)
    return kind is not None and kind.file_annotation is None and kind.parameter_info.parser is None


def _read(value: Any, param: Any) -> Any:
    """None: not plain."""
    annotation = param.type_descriptor.annotation
    if annotation is bool:
        return value if isinstance(value, bool) else None
    if annotation is str:
        return value if isinstance(value, str) else None
    if annotation is int:
        return _whole(value, param)
    if annotation == list[str]:
        return list(value) if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value) else None
    if get_origin(annotation) is Literal:
        return value if isinstance(value, str) and value in get_args(annotation) else None
    return None


def _whole(value: Any, param: Any) -> int | None:
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 16 else None
    if type(value) is not int:
        return None
    low, high = param.min, param.max
    return value if (low is None or value >= low) and (high is None or value <= high) else None
