"""Types of texts, with validators from ``texts`` and JSON Schema."""

from __future__ import annotations

from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from gpusquad.model.fields import MAX_TEXT
from gpusquad.spec import texts
from gpusquad.spec.texts import MAX_NAME_CHARS, MAX_TEXT_CHARS

_AS_LIST = PlainSerializer(lambda value: list(value) if isinstance(value, tuple) else value, when_used="json")
"""Explicit, because Pydantic warns if it converts a tuple to a list itself."""
_ARGUMENT = {"type": "string", "maxLength": MAX_TEXT_CHARS}
_MODEL = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS}
_VARIABLE = {
    "pattern": rf"^{texts.ENV_NAME.pattern}$",
    "not": {"pattern": f"^({texts.OUR_ENV_PREFIX}|({'|'.join(sorted(texts.OUR_ENV))})$)"},
}


def _text(low: int, high: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "maxLength": high} | ({"minLength": low} if low else {}))


def _list(item: dict, most: int) -> dict:
    return {"type": "array", "items": item, "minItems": 1, "maxItems": most}


Name = Annotated[str, PlainValidator(texts.name), _text(0, MAX_NAME_CHARS)]
Reference = Annotated[str, PlainValidator(texts.reference), _text(1, MAX_NAME_CHARS)]
Label = Annotated[str, PlainValidator(texts.label), _text(0, MAX_NAME_CHARS)]
RequiredLabel = Annotated[str, PlainValidator(texts.required_label), _text(1, MAX_NAME_CHARS)]
LongLabel = Annotated[str, PlainValidator(texts.long_label), _text(0, MAX_TEXT)]
CardName = Annotated[str, PlainValidator(texts.card), _text(1, MAX_TEXT)]
Path = Annotated[str, PlainValidator(texts.path), _text(0, texts.MAX_PATH_CHARS)]
Command = Annotated[
    str | tuple[str, ...],
    PlainValidator(texts.command),
    _AS_LIST,
    WithJsonSchema({"anyOf": [_ARGUMENT | {"minLength": 1}, _list(_ARGUMENT, texts.MAX_ARGUMENTS)]}),
]
Models = Annotated[
    str | tuple[str, ...],
    PlainValidator(texts.models),
    _AS_LIST,
    WithJsonSchema({"anyOf": [_MODEL, _list(_MODEL, texts.MAX_MODELS)]}),
]
EnvName = Annotated[
    str,
    PlainValidator(texts.env_name),
    WithJsonSchema({"type": "string", **_VARIABLE}),
]
SecretName = Annotated[
    str,
    PlainValidator(texts.secret_name),
    WithJsonSchema({"type": "string", "pattern": rf"^{texts.SECRET_NAME.pattern}$"}),
]
Env = Annotated[
    dict[str, str],
    PlainValidator(texts.env),
    WithJsonSchema(
        {
            "type": "object",
            "propertyNames": _VARIABLE,
            "additionalProperties": _ARGUMENT,
            "maxProperties": texts.MAX_ENV,
        }
    ),
]
