"""The JSON Schema of job files, for editors and for clients that validate before they send.

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
"""Fields that come first in the schema, and so in editors."""
_RESOURCES = ("gpus", "share", "cpu", "memory")


def json_schema() -> dict[str, Any]:
    """A new copy of the schema. It contains only those constraints between fields that editors can show."""
    schema = JobFile.model_json_schema(schema_generator=_Generator)
    properties = schema["properties"]
    schema["properties"] = {name: properties[name] for name in sorted(properties, key=_rank)}
    schema["allOf"] = [_one_of("command", "roles"), _one_of(*_RESOURCES, "roles")]
    schema["dependentSchemas"] = {"roles": {"properties": dict.fromkeys(ResourcesSpec.model_fields, False)}}
    parts = schema["$defs"]
    for part in (schema, *parts.values()):
        _add_titles(part["properties"])
    parts["RoleSpec"] |= _one_of(*_RESOURCES)
    parts["ShareSpec"] |= _one_of("memory", "sm")
    _add_other_names(parts["SloSpec"]["properties"], SloSpec)
    return {"$schema": DIALECT, **schema}


def schema_text() -> str:
    """The schema as the text of a file."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


class _Generator(GenerateJsonSchema):
    """Omits null from optional fields, so that editors do not offer it."""

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
    """Add titles that Pydantic omits for fields which refer to a part."""
    for name, field in properties.items():
        field.setdefault("title", title(name))


def _add_other_names(properties: dict[str, Any], part: type[SpecModel]) -> None:
    """Add the other names of fields, because Pydantic includes only the first."""
    for name, field in part.model_fields.items():
        first, *others = names_of(name, field)
        for other in others:
            properties[other] = properties[first] | {"title": other, "description": f"Another name for {first}."}


if __name__ == "__main__":
    print(schema_text(), end="")
