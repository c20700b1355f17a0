"""The JSON Schema of job files, for editors and for clients that check before they send.

``python -m gpusquad.spec.schema`` prints it.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from gpusquad.spec.base import SpecModel, names_of, title
from gpusquad.spec.job_parts import SloSpec
from gpusquad.spec.model import JobFile
from gpusquad.spec.roles import ResourcesSpec

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_FIRST = ("version", "name", "command", "gpus", "count")
"""What an editor offers first."""
_ASKS = ("gpus", "share", "cpu", "memory")


def json_schema() -> dict[str, Any]:
    """A new copy at each call. What concerns several fields at once is said as far as editors can show it."""
    schema = JobFile.model_json_schema(schema_generator=_Generator)
    properties = schema["properties"]
    schema["properties"] = {name: properties[name] for name in sorted(properties, key=_rank)}
    schema["allOf"] = [_one_of("command", "roles"), _one_of(*_ASKS, "roles")]
    schema["dependentSchemas"] = {"roles": {"properties": dict.fromkeys(ResourcesSpec.model_fields, False)}}
    parts = schema["$defs"]
    for part in (schema, *parts.values()):
        _add_titles(part["properties"])
    parts["RoleSpec"] |= _one_of(*_ASKS)
    parts["ShareSpec"] |= _one_of("memory", "sm")
    _add_other_names(parts["SloSpec"]["properties"], SloSpec)
    return {"$schema": DIALECT, **schema}


def schema_text() -> str:
    """As it stands in a file."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


class _Generator(GenerateJsonSchema):
    """A field that may be left out is simply not required: editors need not offer null."""

    schema_dialect = DIALECT

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        if made.get("default", ...) in (None, "", []):
            del made["default"]
        return made


def _rank(name: str) -> int:
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


def _one_of(*names: str) -> dict[str, Any]:
    return {"anyOf": [{"required": [name]} for name in names]}


def _add_titles(properties: dict[str, Any]) -> None:
    """Pydantic gives none to a field that only points at a part."""
    for name, field in properties.items():
        field.setdefault("title", title(name))


def _add_other_names(properties: dict[str, Any], part: type[SpecModel]) -> None:
    """Pydantic writes down only the first of several names."""
    for name, field in part.model_fields.items():
        first, *others = names_of(name, field)
        for other in others:
            properties[other] = properties[first] | {"title": other, "description": f"Another name for {first}."}


if __name__ == "__main__":
    print(schema_text(), end="")
