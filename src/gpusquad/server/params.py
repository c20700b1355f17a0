"""Patterns and bounds of request parameters, defined once, described in the API and checked."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from pydantic import AfterValidator, StringConstraints

from gpusquad.core.transitions import JobState
from gpusquad.model.errors import Invalid
from gpusquad.model.fields import MAX_TEXT, checked_text
from gpusquad.model.units import US_PER_S
from gpusquad.server.secrets import TENANT_NAME
from gpusquad.server.wiring import Services
from gpusquad.spec.texts import SECRET_NAME

MAX_ROWS = 1000
USUAL_ROWS = 100
MAX_TIME_S = 1e10
"""The year 2286."""
NAME_PATTERN = TENANT_NAME
_LINE = r"^[^\x00-\x1f\x7f]*$"
_STATES = "|".join(JobState)


def _printable(text: str) -> str:
    """Reject characters that move a cursor, break a line or change the reading direction."""
    return checked_text(text, "", may_be_empty=True)


Line = Annotated[str, StringConstraints(max_length=MAX_TEXT, pattern=_LINE), AfterValidator(_printable)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=NAME_PATTERN)]

JobRef = Annotated[
    str,
    Path(
        min_length=1,
        max_length=MAX_TEXT,
        pattern=_LINE,
        description="Id, a prefix or suffix of one, or a unique name",
    ),
]
NodeId = Annotated[str, Path(min_length=1, max_length=MAX_TEXT, pattern=_LINE)]
CardId = Annotated[str, Path(min_length=1, max_length=MAX_TEXT, pattern=_LINE, description="For example node0/3")]
CardRef = Annotated[
    str,
    Path(
        min_length=1,
        max_length=MAX_TEXT,
        pattern=_LINE,
        description="Id or UUID, a prefix of one, or the index: node0/3, or 3 if there is one node",
    ),
]
PathName = Annotated[str, Path(min_length=1, max_length=63, pattern=NAME_PATTERN)]
SecretName = Annotated[str, Path(min_length=1, max_length=128, pattern=rf"^{SECRET_NAME.pattern}$")]
RowId = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_.-]+$")]
NumberId = Annotated[int, Path(ge=1, le=2**53)]

Limit = Annotated[int, Query(ge=1, le=MAX_ROWS, description="Rows on this page")]
Cursor = Annotated[str | None, Query(max_length=512, pattern=_LINE, description="`next` of the previous page")]
Offset = Annotated[
    str | None, Query(max_length=12, pattern=r"^[0-9]{1,12}$", description="`next` of the previous page")
]
TimeS = Annotated[float | None, Query(ge=0, le=MAX_TIME_S, allow_inf_nan=False, description="Seconds since 1970")]
QueryLine = Annotated[str | None, Query(max_length=MAX_TEXT, pattern=_LINE)]
States = Annotated[
    list[Annotated[str, StringConstraints(pattern=rf"^({_STATES})(,({_STATES}))*$", max_length=200)]],
    Query(max_length=20, description="One or more, repeated or separated by commas"),
]


async def services_of(request: Request) -> Services:
    """Async to run on the event loop: a plain function would be sent to a thread."""
    return request.app.state.services


Svc = Annotated[Services, Depends(services_of)]


async def known_query_only(request: Request) -> None:
    """Refuse unknown parameters, because a misspelt filter would have no effect."""
    known = _query_names(request.scope.get("route"))
    for name in request.query_params:
        if name not in known:
            cure = f"choose from {', '.join(sorted(known))}" if known else "this path has none"
            raise Invalid(name[:MAX_TEXT], "is not a known parameter", cure)


def split_states(given: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(state for part in given for state in part.split(",")))


def to_us(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * US_PER_S)


def to_s(us: int | None) -> float | None:
    return None if us is None else us / US_PER_S


def _query_names(route: Any) -> frozenset[str]:
    dependant = getattr(route, "dependant", None)
    return frozenset() if dependant is None else frozenset(_names(dependant))


def _names(dependant: Any) -> list[str]:
    inner = [name for part in dependant.dependencies for name in _names(part)]
    return [field.alias for field in dependant.query_params] + inner
