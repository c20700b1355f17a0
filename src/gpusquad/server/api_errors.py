"""Converts exceptions to answers of the form ``{"error": {code, message, field, cure}}``."""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from gpusquad.model.errors import Invalid
from gpusquad.model.reasons import Reason
from gpusquad.server.errors import Conflict, JobRefused, ServiceError, Unavailable
from gpusquad.server.json_answer import Answer
from gpusquad.server.services.runtime.loop import ServiceStopping
from gpusquad.store.errors import StoreConflict, StoreUnavailable

_log = logging.getLogger("gpusquad.server")

_CODES = {401: "unauthenticated", 403: "forbidden", 404: "not_found", 405: "method_not_allowed", 409: "conflict"}
_INPUT = ("body", "query", "path", "header", "cookie")


def answer_for(error: Exception) -> Answer:
    """Answer for an exception. An unexpected one is logged under an id, and the answer contains only the id."""
    match error:
        case ServiceError():
            return _of_service(error)
        case Invalid():
            return error_answer(422, "invalid", error.problem, field=error.field, cure=error.cure)
        case RequestValidationError():
            return _of_validation(error.errors())
        case HTTPException():
            return _of_http(error)
        case StoreUnavailable():
            _log.warning("the store does not answer: %s", error)
            return _of_service(Unavailable("the store does not answer"))
        case StoreConflict():
            return _of_service(Conflict("already exists, or refers to something that does not exist"))
        case ServiceStopping():
            return _of_service(Unavailable("the service is stopping"))
        case TimeoutError():
            return _of_service(Unavailable("the scheduler is busy", wait_s=2.0))
    return _unexpected(error)


def error_answer(
    status: int,
    code: str,
    message: str,
    *,
    field: str = "",
    cure: str = "",
    retry_after_s: float | None = None,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Answer:
    """An error in the API's form."""
    shown = dict(headers or {})
    if retry_after_s is not None:
        shown["Retry-After"] = str(max(1, math.ceil(retry_after_s)))
    if status == 401:
        shown["WWW-Authenticate"] = "Bearer"
    body = {"code": code, "message": message, "field": field, "cure": cure, **more}
    return Answer({"error": body}, status_code=status, headers=shown)


def reason_view(reason: Reason) -> dict[str, Any]:
    return {
        "code": str(reason.code),
        "message": reason.message,
        "cure": reason.cure,
        "numbers": dict(reason.numbers),
        "who": list(reason.who),
    }


def install(app: FastAPI) -> None:
    """Handle the two errors that FastAPI answers itself. All others reach the ``Failures`` middleware."""

    async def answer(_: Request, error: Exception) -> Answer:
        return answer_for(error)

    app.add_exception_handler(HTTPException, answer)
    app.add_exception_handler(RequestValidationError, answer)


def _of_service(error: ServiceError) -> Answer:
    more = {"reason": reason_view(error.reason)} if isinstance(error, JobRefused) else {}
    return error_answer(
        error.status,
        error.code,
        error.message,
        field=error.field,
        cure=error.cure,
        retry_after_s=error.retry_after_s,
        **more,
    )


def _of_http(error: HTTPException) -> Answer:
    if error.status_code == 400:
        return error_answer(422, "invalid", "cannot be read", field="body", cure="send one JSON object")
    code = _CODES.get(error.status_code, "http_error")
    return error_answer(error.status_code, code, str(error.detail), headers=error.headers)


def _of_validation(errors: Sequence[Mapping[str, Any]]) -> Answer:
    """The first problem, in the form of our own errors. The input is never repeated, because it may be secret."""
    first = errors[0]
    where = [str(part) for part in first["loc"] if part != "[key]"]
    if first["type"] == "json_invalid":
        where, message = ["body"], f"is not JSON: {first.get('ctx', {}).get('error', '')}"
    else:
        message = str(first["msg"])
    field = ".".join(where[1:] if len(where) > 1 and where[0] in _INPUT else where)
    cause = first.get("ctx", {}).get("error")
    cure = ""
    if isinstance(cause, Invalid):
        field, message, cure = f"{field}.{cause.field}" if cause.field else field, cause.problem, cause.cure
    if len(errors) > 1:
        message += f" (and {len(errors) - 1} more)"
    return error_answer(422, "invalid", message, field=field, cure=cure)


def _unexpected(error: Exception) -> Answer:
    number = secrets.token_hex(6)
    _log.error("unexpected error %s", number, exc_info=error)
    cure = "look for this id in the log of the service"
    return error_answer(500, "internal", f"internal error {number}", cure=cure, id=number)
