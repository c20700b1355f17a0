"""Parses plain option values without Pydantic.

Typer passes every value to Pydantic, whose import takes longer than the rest of a short verb. Most values are absent,
plain text or integers, and are parsed here. Typer parses all others, so accepted values and error messages stay the
same. If Typer's internals change, this module has no effect.
"""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

import typer

_SLOT = "_runtime_param"
"""Attribute in which Typer caches the parser of a parameter."""


def install_fast_parser(command: Any) -> Any:
    """Install the fast parser in a command and its subcommands; return the command."""
    for param in command.get_params(typer.Context(command)):  # includes --help, which ``params`` does not
        if getattr(param, _SLOT, command) is None and _is_plain(param):
            setattr(param, _SLOT, FastParser())
    for inner in getattr(command, "commands", {}).values():
        install_fast_parser(inner)
    return command


class FastParser:
    """Parses plain values. At the first other value it hands over to Typer's own parser permanently."""

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
    """The parsed value; None if it is not plain."""
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
