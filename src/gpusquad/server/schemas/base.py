"""What the schemas share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from gpusquad.server.params import MAX_TIME_S


class ApiView(BaseModel):
    """An answer, or a part of one. Every field is always there."""

    model_config = ConfigDict(extra="forbid")


class ApiBody(BaseModel):
    """What a caller sends. Fields we do not know are refused: they would be ignored wishes."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


Seconds = Annotated[float, Field(ge=0, le=MAX_TIME_S)]
Next = Annotated[str | None, Field(description="Cursor of the next page; null: this is the last one")]


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
    id: str | None = Field(None, description="Of an unexpected error: what to look for in the log")


class ErrorBody(ApiView):
    error: ErrorView


class Done(ApiView):
    """It is done, and there is nothing to tell."""

    ok: bool
