"""Parses answers: data, errors and the service's clock."""

from __future__ import annotations

import http.client
import json
from typing import Any, Protocol

from gpusquad.client.errors import ApiError

SKEW_S = 2.0
"""Smaller differences of clocks are ignored: the header has whole seconds, and answers take time."""
MAX_TEXT_CHARS = 2000


class Headers(Protocol):
    """The headers that are used."""

    def get(self, name: str, /) -> str | None: ...


def json_of(status: int, body: bytes, url: str) -> Any:
    """Plain data. None for an answer without a body."""
    if not body:
        return None
    try:
        return json.loads(body)
    except ValueError:
        raise ApiError(
            status, "unexpected", "the answer is not JSON", cure=f"is {url} the address of a gpusquad service?"
        ) from None


def error_of(status: int, headers: Headers, body: bytes, url: str) -> ApiError:
    """The error in an answer, in its own words if it has any."""
    error_data = _error_in(body)
    if error_data is None:
        phrase = http.client.responses.get(status, "unexpected answer")
        cure = f"is {url} the address of a gpusquad service?" if status < 500 else ""
        return ApiError(status, "unexpected", f"{status} {phrase}", "", cure, _retry_after(headers))
    code, message, field, cure = (str(error_data.get(name) or "")[:MAX_TEXT_CHARS] for name in _FIELDS)
    return ApiError(status, code or "unexpected", message or f"status {status}", field, cure, _retry_after(headers))


def skew_of(headers: Headers, now_s: float) -> float:
    """Seconds by which the service's clock is ahead. 0 if unknown."""
    date = headers.get("Date")
    if not date:
        return 0.0
    from email.utils import parsedate_to_datetime

    try:
        skew_s = parsedate_to_datetime(date).timestamp() - now_s
    except (ValueError, OverflowError):
        return 0.0
    return skew_s if abs(skew_s) > SKEW_S else 0.0


_FIELDS = ("code", "message", "field", "cure")


def _error_in(body: bytes) -> dict[str, Any] | None:
    try:
        answer = json.loads(body)
    except ValueError:
        return None
    if not isinstance(answer, dict):
        return None
    if answer.get("kind") == "Status":  # from the Kubernetes API server, if the request goes through one
        return {"code": answer.get("reason"), "message": answer.get("message")}
    error = answer.get("error")
    return error if isinstance(error, dict) else None


def _retry_after(headers: Headers) -> float | None:
    try:
        return max(0.0, float(headers.get("Retry-After") or ""))
    except ValueError:
        return None
