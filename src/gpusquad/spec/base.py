"""Base class of all parts of a job file."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, get_args

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, model_validator
from pydantic.fields import FieldInfo

from gpusquad.model.errors import Invalid
from gpusquad.model.fields import Fields
from gpusquad.spec.paths import key_text, short

_ABBREVIATIONS = frozenset({"gpu", "cpu", "sm", "slo"})


class SpecModel(BaseModel):
    """An object with named fields. Null means that a field is omitted; unknown fields are refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        model_title_generator=lambda cls: cls.__name__.removesuffix("Spec"),
        field_title_generator=lambda name, _: title(name),
    )

    no_such_field: ClassVar[dict[str, str]] = {}
    """Common wrong field names, with what to write instead."""

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, data: Any) -> Any:
        if isinstance(data, cls):
            return data
        if not isinstance(data, dict):
            raise Invalid("", f"must be an object with named fields, not {short(data)}")
        known = _names(cls)
        for name in data:
            if name not in known:
                raise _unknown(cls, name)
        return {name: value for name, value in data.items() if value is not None}


def accepts_short_form(main_field: str, expected: str, *kinds: type, schema: Any) -> BeforeValidator:
    """Accepts the value of ``main_field`` in place of the whole object. ``schema``: type of both forms."""

    def expand_short_form(value: Any) -> Any:
        if isinstance(value, (dict, BaseModel)):
            return value
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise Invalid("", f"must be {expected}, not {short(value)}")
        return {main_field: value}

    return BeforeValidator(expand_short_form, json_schema_input_type=schema)


def choice(kind: Any) -> BeforeValidator:
    """Validator of a ``Literal`` whose error lists the values and suggests the closest."""
    words = get_args(kind)

    def check(value: Any) -> Any:
        try:
            return Fields({"value": value}, "", ("value",)).choice("value", "", words)
        except Invalid as error:
            raise Invalid("", error.problem, error.cure) from None

    return BeforeValidator(check)


def title(name: str) -> str:
    """Title of a field: ``GPU memory`` for ``gpu_memory``."""
    words = [word.upper() if word in _ABBREVIATIONS else word for word in name.split("_")]
    return " ".join([words[0][:1].upper() + words[0][1:], *words[1:]])


def names_of(name: str, field: FieldInfo) -> list[str]:
    """All names of a field in a job file."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return [str(choice) for choice in alias.choices]
    return [str(alias or name)]


@cache
def _names(part: type[SpecModel]) -> tuple[str, ...]:
    """All field names of a part in a job file."""
    return tuple(called for name, field in part.model_fields.items() for called in names_of(name, field))


def _unknown(part: type[SpecModel], name: object) -> Invalid:
    if name in part.no_such_field:
        return Invalid(str(name), "is not a known field", part.no_such_field[str(name)])
    try:
        Fields({key_text(name): None}, "", _names(part))
    except Invalid as error:
        return error
    return Invalid(key_text(name), "is not a known field", "use a text as field name")
