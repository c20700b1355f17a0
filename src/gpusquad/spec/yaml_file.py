"""Reads YAML job files as plain data that JSON can represent.

Scalars follow YAML 1.2, as in editors: ``on`` and ``no`` are text, ``010`` is ten. Harmful or surprising constructs are
refused with their line: duplicate keys, aliases (which can expand without bound), tags and deep nesting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import yaml

from gpusquad.model.errors import Invalid
from gpusquad.spec.paths import short

MAX_FILE_BYTES = 1 << 20
MAX_DEPTH = 32

_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(_TAG + kind for kind in ("str", "int", "float", "bool", "null", "seq", "map"))
_UNREADABLE = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that YAML does not allow. Checked here, because the parsers report their position differently."""


def load(source: Path | str) -> dict:
    """The fields of a job file. ``source`` is its path or its text."""
    file = "job file" if isinstance(source, str) else source.name
    text = _decoded(source.encode("utf-8", "surrogatepass") if isinstance(source, str) else _read(source), file)
    try:
        _check_events(text)
        data = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise _as_invalid(error, file) from None
    if not isinstance(data, dict):
        raise Invalid(file, f"must be an object with named fields, not {short(data)}", "write for example gpus: 1")
    return data


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def _decoded(content: bytes, file: str) -> str:
    if len(content) > MAX_FILE_BYTES:
        raise Invalid(file, f"is larger than {MAX_FILE_BYTES >> 20} MiB", "move long texts into separate files")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Invalid(f"{file} line {line}", "is not UTF-8 text", "save it as UTF-8") from None
    control = _UNREADABLE.search(text)
    if control:
        line = text.count("\n", 0, control.start()) + 1
        problem = f"contains the control character U+{ord(control[0]):04X}"
        raise Invalid(f"{file} line {line}", problem, 'remove it, or write it as an escape in "…"')
    return text


def _check_events(text: str) -> None:
    """Refuse constructs that must not be loaded. Works on the event stream, so deep nesting costs nothing."""
    depth = documents = 0
    for event in yaml.parse(text, Loader=_Parser):
        if isinstance(event, yaml.AliasEvent):
            raise _refusal("has an alias", "write out the value, or use params", event.start_mark)
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        if documents > 1:
            raise _refusal("starts a second document", "use one file per job", event.start_mark)
        tag = getattr(event, "tag", None)
        if tag is not None and tag not in _PLAIN_TAGS:
            raise _refusal(f"{short(tag)} is not an allowed tag", "leave it out", event.start_mark)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _refusal(f"is nested deeper than {MAX_DEPTH}", "", event.start_mark)


def _refusal(problem: str, cure: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark, note=cure)


def _as_invalid(error: yaml.MarkedYAMLError, file: str) -> Invalid:
    mark = error.problem_mark or error.context_mark
    where = f"{file} line {mark.line + 1}" if mark else file
    problem = ": ".join(part for part in (error.context, error.problem) if part)
    return Invalid(where, problem or "cannot be read", error.note or "")


# libyaml if PyYAML was built with it, because it is ten times faster.
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Parser):
    """Loads only text, numbers, booleans, null, lists and mappings."""

    yaml_implicit_resolvers: ClassVar[dict] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> dict:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != _TAG + "str":
                raise _refusal("has a field name that is not text", "put it in quotes", key.start_mark)
            if key.value in seen:
                raise _refusal(f"{short(key.value)} is given twice", "remove one of them", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _scalar(kind: str, pattern: str, first: Iterable[str], make: Callable[[str], object]) -> None:
    """Register a scalar type in the loader."""
    known = re.compile(rf"(?:{pattern})\Z")

    def construct(loader: Any, node: Any) -> object:
        if not known.match(node.value):
            raise _refusal(f"cannot read {short(node.value)} as {kind}", "leave out its tag", node.start_mark)
        try:
            return make(node.value)
        except ValueError:  # Python does not parse numbers with thousands of digits
            raise _refusal("has a number that is too long", "put it in quotes", node.start_mark) from None

    _Loader.add_implicit_resolver(_TAG + kind, known, list(first))
    _Loader.add_constructor(_TAG + kind, construct)


def _whole(text: str) -> int:
    return int(text, 0 if text[:2] in ("0o", "0x") else 10)


def _float(text: str) -> float:
    return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))


# The core schema of YAML 1.2. The first match wins, so integers come before floats.
_DIGITS = "0123456789"
_FLOAT = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
_scalar("null", r"~|null|Null|NULL|", ["", *"~nN"], lambda text: None)
_scalar("bool", r"true|True|TRUE|false|False|FALSE", "tTfF", lambda text: text.lower() == "true")
_scalar("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+" + _DIGITS, _whole)
_scalar("float", _FLOAT, "-+." + _DIGITS, _float)
