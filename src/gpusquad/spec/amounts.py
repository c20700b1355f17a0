"""Types of numbers, durations and sizes, with validators and JSON Schema.

A value is kept as written (``2h``); the parsers of ``model`` only check its form. In a job file a number may be a
placeholder. In a concrete job (context ``CONCRETE``) all placeholders are filled, and the resulting text is parsed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from pydantic import PlainValidator, ValidationInfo, WithJsonSchema

from gpusquad.model.errors import Invalid
from gpusquad.model.fields import MAX_CORES, MAX_TEXT, MAX_US, Fields
from gpusquad.model.job_codec import MAX_GPUS, MAX_SIZES, gpu_count
from gpusquad.model.priority import MAX_LEVEL, PRIORITY_CLASSES, priority_text
from gpusquad.model.units import US_PER_S
from gpusquad.spec import texts
from gpusquad.spec.paths import key_text, short
from gpusquad.spec.placeholders import MARK

CONCRETE: Final = {"concrete": True}
"""Validation context of a concrete job, which has no placeholders."""
AUTO = "auto"
"""Value of a field that the service chooses from past runs."""
MAX_TASKS = 10_000
MAX_RETRIES = 100
MAX_GRACE_S = 86_400
MAX_ESTIMATOR_S = 600

_MAX_S = MAX_US // US_PER_S
_NUMBER = r"\s*\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"


def _read(method: str, *, is_number: bool = False, **bounds: Any) -> Callable[[object, ValidationInfo], Any]:
    """A validator that uses a method of ``model.fields.Fields``. ``is_number``: that method accepts no text."""

    def check(value: object, info: ValidationInfo) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise Invalid("", f"must be a number{'' if is_number else ' or a text'}, not {short(value)}")
        if isinstance(value, str):
            if info.context is not CONCRETE and MARK in value:
                return texts.any_text(value, MAX_TEXT)
            if info.context is CONCRETE and is_number:
                value = _as_number(value)
        try:
            getattr(Fields({"value": value}, "", ("value",)), method)("value", **bounds)
        except Invalid as error:
            raise Invalid("", error.problem, error.cure) from None
        return value

    return check


def _as_number(text: str) -> int | float | str:
    """The number in a filled placeholder. Other text is returned unchanged, and the parser refuses it."""
    for kind in (int, float):
        try:
            return kind(text) if "_" not in text else text  # Python accepts 1_000, our parsers do not
        except ValueError:
            continue
    return text


def _grace(value: object, info: ValidationInfo) -> Any:
    checked = _read("us")(value, info)
    is_open = isinstance(value, str) and MARK in value
    if not is_open and Fields({"value": value}, "", ("value",)).us("value") > MAX_GRACE_S * US_PER_S:
        raise Invalid("", f"{short(value)} is more than a day", "use at most 24h")
    return checked


def _estimator_time(value: object, info: ValidationInfo) -> Any:
    checked = _read("us")(value, info)
    if isinstance(value, str) and MARK in value:
        return checked
    if not 0 < Fields({"value": value}, "", ("value",)).us("value") <= MAX_ESTIMATOR_S * US_PER_S:
        raise Invalid("", f"{short(value)} is not more than zero and at most 10 minutes", "write for example 2m")
    return checked


def _priority(value: object, info: ValidationInfo) -> int | str:
    """As a name where there is one. A sweep may fill in numbers."""
    checked = _read("priority")(value, info)
    is_open = isinstance(value, str) and info.context is not CONCRETE and MARK in value
    return checked if is_open else priority_text(checked, "")


def _by_gpus(value: object, info: ValidationInfo) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(
            "", f"must map numbers of GPUs to run times, not {short(value)}", 'write for example {"1": 8h, "2": 5h}'
        )
    if len(value) > MAX_SIZES:
        raise Invalid("", "has too many entries", f"use at most {MAX_SIZES}")
    found: dict[str, Any] = {}
    for key, span in value.items():
        name = key_text(key)
        try:
            found[str(gpu_count(key, ""))] = _read("us")(span, info)
        except Invalid as error:
            raise Invalid(name, error.problem, error.cure) from None
    if len(found) < len(value):
        raise Invalid("", "has a number of GPUs twice", "remove one of them")
    return found


def _or_auto(check: Callable[[object, ValidationInfo], Any]) -> PlainValidator:
    """Accepts ``auto`` and whatever ``check`` accepts."""
    return PlainValidator(lambda value, info: AUTO if value == AUTO else check(value, info))


def _or_placeholder(*schemas: dict) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [*schemas, {"type": "string", "pattern": r"\$\{", "maxLength": MAX_TEXT}]})


def _whole(low: int, high: int) -> WithJsonSchema:
    return _or_placeholder({"type": "integer", "minimum": low, "maximum": high})


def _amount(most: float, units: str, *others: dict) -> WithJsonSchema:
    """Schema of a number, or of text with a unit that matches ``units``."""
    text = {"type": "string", "pattern": rf"^{_NUMBER}{units}\s*$", "maxLength": MAX_TEXT}
    return _or_placeholder({"type": "number", "minimum": 0, "maximum": most}, text, *others)


_TIMES = "([uUmM]?[sS]|[mM]([iI][nN])?|[hHdD])?"
_SIZES = "([kKmMgGtT][iI]?)?[bB]?"
_GPUS_CURE = "for a part of one GPU write share: {sm: 0.5}; to let the service choose write auto"


Gpus = Annotated[
    int | float | str,
    _or_auto(_read("whole", is_number=True, default=0, high=MAX_GPUS, cure=_GPUS_CURE)),
    _or_placeholder({"type": "integer", "minimum": 0, "maximum": MAX_GPUS}, {"const": AUTO}),
]
Tasks = Annotated[
    int | float | str,
    PlainValidator(_read("whole", is_number=True, default=1, low=1, high=MAX_TASKS)),
    _whole(1, MAX_TASKS),
]
RetryCount = Annotated[
    int | float | str,
    PlainValidator(_read("whole", is_number=True, default=0, high=MAX_RETRIES)),
    _whole(0, MAX_RETRIES),
]
Duration = Annotated[int | float | str, PlainValidator(_read("us")), _amount(_MAX_S, _TIMES)]
EstimatorTime = Annotated[int | float | str, PlainValidator(_estimator_time), _amount(MAX_ESTIMATOR_S, _TIMES)]
Grace = Annotated[int | float | str, PlainValidator(_grace), _amount(MAX_GRACE_S, _TIMES)]
SpansByGpus = Annotated[
    dict[str, int | float | str],
    PlainValidator(_by_gpus),
    WithJsonSchema(
        {
            "type": "object",
            "propertyNames": {"pattern": "^0{0,4}[1-9][0-9]{0,3}$"},
            "additionalProperties": _amount(_MAX_S, _TIMES).json_schema,
            "minProperties": 1,
            "maxProperties": MAX_SIZES,
        }
    ),
]
Size = Annotated[int | float | str, PlainValidator(_read("bytes")), _amount(2**53, _SIZES)]
AutoSize = Annotated[int | float | str, _or_auto(_read("bytes")), _amount(2**53, _SIZES, {"const": AUTO})]
CardPart = Annotated[
    int | float | str,
    PlainValidator(_read("bytes_or_milli")),
    _amount(2**53, _SIZES, {"type": "string", "pattern": rf"^{_NUMBER}%\s*$", "maxLength": MAX_TEXT}),
]
"""An amount or a percentage of a card's memory."""
Cores = Annotated[int | float | str, PlainValidator(_read("cpu_milli")), _amount(MAX_CORES, "m?")]
AutoCores = Annotated[int | float | str, _or_auto(_read("cpu_milli")), _amount(MAX_CORES, "m?", {"const": AUTO})]
SmShare = Annotated[int | float | str, PlainValidator(_read("milli")), _amount(1, "%?")]
Ratio = Annotated[int | float | str, PlainValidator(_read("ratio", is_number=True)), _amount(1, "%")]
Rate = Annotated[
    int | float | str,
    PlainValidator(_read("per_s", is_number=True)),
    _or_placeholder(
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", "pattern": rf"^{_NUMBER}(/s)?\s*$", "maxLength": MAX_TEXT},
    ),
]
Priority = Annotated[
    int | str,
    PlainValidator(_priority),
    _or_placeholder(
        {"enum": list(PRIORITY_CLASSES)},
        {"type": "integer", "minimum": -MAX_LEVEL, "maximum": MAX_LEVEL},
        {"type": "string", "pattern": r"^\s*[+-]?[0-9]{1,10}\s*$"},
    ),
]
