"""OpenAPI description, with the errors that every operation can return."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from gpusquad.server.schemas.base import ErrorBody

ERRORS = {
    401: "Missing or invalid token",
    403: "Not allowed for this caller",
    404: "Does not exist, or is not visible to this caller",
    408: "The body arrived too slowly",
    409: "Conflicts with the current state",
    413: "The body is too large",
    422: "Invalid input",
    429: "Too many requests; see Retry-After",
    503: "Temporarily unavailable; see Retry-After",
}
_REF = "#/components/schemas/{model}"
_OF_FASTAPI = ("HTTPValidationError", "ValidationError")


def describe(app: FastAPI) -> dict[str, Any]:
    """Built once. The errors are added here, because adding them to every route would cost seconds at each start."""
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
