"""Common parts of the schemas."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from gpusquad.model.priority import MAX_LEVEL, priority_text
from gpusquad.server.params import MAX_TIME_S


class ApiView(BaseModel):
    """An answer or a part of one. All fields are always present."""

    model_config = ConfigDict(extra="forbid")


class ApiBody(BaseModel):
    """A request body. Unknown fields are refused, because they would be ignored."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


_PRIORITY = {
    "anyOf": [{"type": "string", "maxLength": 64}, {"type": "integer", "minimum": -MAX_LEVEL, "maximum": MAX_LEVEL}]
}
Priority = Annotated[str, BeforeValidator(lambda value: priority_text(value, "")), WithJsonSchema(_PRIORITY)]
"""The name of a priority class or an integer, in a request. Answers have text: the name, else the number."""
Gpus = Annotated[int, Field(ge=0, le=10_000_000)]
Seconds = Annotated[float, Field(ge=0, le=MAX_TIME_S)]
Next = Annotated[str | None, Field(description="Cursor of the next page; null on the last one")]


class ReasonView(ApiView):
    code: str
    message: str
    cure: str
    numbers: dict[str, float | None]
    who: list[str]


class ErrorView(ApiView):
    code: str
    message: str
    field: str
    cure: str
    reason: ReasonView | None = None
    id: str | None = Field(None, description="Id of an unexpected error, to look for in the log")


class ErrorBody(ApiView):
    error: ErrorView


class Done(ApiView):
    """Done, without further data."""

    ok: bool
