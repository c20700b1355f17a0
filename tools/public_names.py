#!/usr/bin/env python3
"""Prints every name that users and their programs depend on, one per line and sorted. Compare versions with diff.

    .venv/bin/python tools/public_names.py > names.txt

API paths and fields, job-file and config fields, CLI verbs and options, policies and their parameters, modes, reason
codes, database tables, metrics, annotations and environment variables. Texts and descriptions are left out.
"""

from __future__ import annotations

import re
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import gpusquad

SOURCE = Path(gpusquad.__file__).parent
PATTERNS = {
    "metric": r"\bgpusquad_[a-z][a-z0-9_]+(?=[\"'])",
    "annotation": r"\bgpusquad\.io/[A-Za-z][\w.-]*\w",
    "variable": r"\bGPUSQUAD_[A-Z][A-Z0-9_]+(?<!_H)\b",
}


def main() -> None:
    lines = {
        line
        for part in (_api, _job_file, _config, _cli, _policies, _modes, _reasons, _tables, _annotations, _texts)
        for line in part()
    }
    print("\n".join(sorted(lines)))


def _api() -> Iterator[str]:
    from gpusquad.server.app import bare_app

    description = bare_app().openapi()
    schemas = description["components"]["schemas"]
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            name = f"api {method.upper()} {path}"
            yield name
            for parameter in operation.get("parameters", ()):
                yield f"{name} ?{parameter['name']}"
            for body in operation.get("requestBody", {}).get("content", {}).values():
                yield from (f"{name} < {line}" for line in _fields(body.get("schema", {}), schemas))
            for status, response in operation.get("responses", {}).items():
                for answer in response.get("content", {}).values():
                    yield from (f"{name} > {status} {line}" for line in _fields(answer.get("schema", {}), schemas))


def _fields(schema: Mapping[str, Any], schemas: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[str]:
    """Each field with its path and type; names of schemas do not matter."""
    if depth > 12:
        return
    if "$ref" in schema:
        yield from _fields(schemas.get(schema["$ref"].rpartition("/")[2], {}), schemas, prefix, depth + 1)
        return
    for key in ("anyOf", "oneOf", "allOf"):
        for option in schema.get(key, ()):
            yield from _fields(option, schemas, prefix, depth + 1)
    if "items" in schema:
        yield from _fields(schema["items"], schemas, f"{prefix}[]", depth + 1)
    for name, value in schema.get("properties", {}).items():
        yield from _fields(value, schemas, f"{prefix}.{name}", depth + 1)
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield from _fields(schema["additionalProperties"], schemas, f"{prefix}.*", depth + 1)
    if schema.get("type"):
        yield f"{prefix} {schema['type']}{' ' + str(schema['enum']) if 'enum' in schema else ''}"


def _job_file() -> Iterator[str]:
    from gpusquad.spec.schema import json_schema

    schema = json_schema()
    yield from (f"job-file {line}" for line in _fields(schema, schema["$defs"]))


def _config() -> Iterator[str]:
    from gpusquad.app.config import Config

    schema = Config.model_json_schema()
    yield from (f"config {line}" for line in _fields(schema, schema.get("$defs", {})))


def _cli() -> Iterator[str]:
    import click
    import typer

    from gpusquad.cli import app

    def walk(command: Any, path: str) -> Iterator[str]:
        command = getattr(command, "real", command)
        yield path
        for option in getattr(command, "params", ()):
            yield f"{path} {' '.join(sorted([*option.opts, *option.secondary_opts]))}"
        group = getattr(command, "list_commands", None)
        if group is not None:
            context = click.Context(command)
            for name in group(context):
                found = command.get_command(context, name)
                loaded = getattr(found, "load", None)
                yield from walk(loaded() if callable(loaded) else found, f"{path} {name}")

    yield from walk(typer.main.get_command(app), "cli gpusquad")


def _policies() -> Iterator[str]:
    from gpusquad import registry

    for kind in ("order", "plan", "place", "divide", "predictor", "reader"):
        for name in sorted(registry.names(kind)):
            yield f"{kind} {name}"
            cls = registry.find(kind, name)
            for parameter in fields(cls) if hasattr(cls, "__dataclass_fields__") else ():
                default = "" if parameter.default is MISSING else f"={parameter.default}"
                yield f"{kind} {name}:{parameter.name}{default}"


def _modes() -> Iterator[str]:
    for path in sorted((SOURCE / "modes").glob("*.toml")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                yield f"mode {path.stem} {line.partition('#')[0].strip()}"


def _reasons() -> Iterator[str]:
    from gpusquad.model import reasons

    codes = getattr(reasons, "ReasonCode", None) or reasons.Code  # type: ignore[attr-defined]
    yield from (f"reason {code.value}" for code in codes)


def _tables() -> Iterator[str]:
    from gpusquad.store.database import Database

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "names.db"
        database = Database(f"sqlite:///{path}")
        database.migrate()
        database.close()
        with sqlite3.connect(path) as connection:
            for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"):
                yield f"table {name} {' '.join(sql.split())}"


def _annotations() -> Iterator[str]:
    from gpusquad.kube import names

    yield from (f"annotation {value}" for value in vars(names).values() if str(value).startswith("gpusquad.io/"))


def _texts() -> Iterator[str]:
    for path in SOURCE.rglob("*"):
        if path.suffix in {".py", ".c", ".h"} and path.is_file():
            text = path.read_text(encoding="utf-8")
            for kind, pattern in PATTERNS.items():
                yield from (f"{kind} {found}" for found in set(re.findall(pattern, text)))


if __name__ == "__main__":
    main()
