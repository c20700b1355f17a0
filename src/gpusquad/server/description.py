"""The API's description (OpenAPI), with the errors that every operation may answer with."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from gpusquad.server.schemas.base import ErrorBody

ERRORS = {
    401: "No token, or none that is valid",
    403: "Not allowed to this caller",
    404: "No such thing that this caller may know of",
    408: "The body came too slowly",
    409: "What is there now does not allow it",
    413: "The body is too large",
    422: "What was sent cannot be used",
    429: "Too fast; Retry-After says when to try again",
    503: "Cannot answer now; Retry-After says when to try again",
}
_REF = "#/components/schemas/{model}"
_OF_FASTAPI = ("HTTPValidationError", "ValidationError")


def describe(app: FastAPI) -> dict[str, Any]:
    """Made once. The errors are added here and not at every route: there they would cost seconds at each start."""
    if app.openapi_schema is None:
        described = get_openapi(title=app.title, version=app.version, routes=app.routes)
        schemas = described["components"]["schemas"]
        for name in _OF_FASTAPI:
            schemas.pop(name, None)
        errors = ErrorBody.model_json_schema(ref_template=_REF)
        schemas |= errors.pop("$defs") | {ErrorBody.__name__: errors}
        for operations in described["paths"].values():
            for operation in operations.values():
                operation["responses"] = _errors() | _without_errors(operation["responses"])
        app.openapi_schema = described
    return app.openapi_schema


def _errors() -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": _REF.format(model=ErrorBody.__name__)}}}
    return {str(status): {"description": text, "content": content} for status, text in ERRORS.items()}


def _without_errors(responses: dict[str, Any]) -> dict[str, Any]:
    return {status: response for status, response in responses.items() if status.startswith("2")}
