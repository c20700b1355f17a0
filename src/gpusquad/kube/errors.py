"""Errors of reading a pod, and of calls to the API server."""

from __future__ import annotations

from gpusquad.model.errors import Invalid

_MAX_SHOWN = 80


class MalformedField(Invalid):
    """A value that cannot be parsed. The field is its path in the object."""


class UnsupportedField(Invalid):
    """A well-formed value that gpusquad cannot carry out. It is refused, never ignored."""


class ApiRefused(Exception):
    """The API server answered with an error."""

    def __init__(self, status: int, reason: str = "", message: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def is_conflict(self) -> bool:
        """Another writer was first: the object has changed, or it exists already."""
        return self.status == 409

    @property
    def already_exists(self) -> bool:
        return self.reason == "AlreadyExists"

    @property
    def is_missing(self) -> bool:
        return self.status == 404

    @property
    def is_forbidden(self) -> bool:
        return self.status == 403

    @property
    def is_expired(self) -> bool:
        """The requested version is older than what the server keeps."""
        return self.status == 410

    @property
    def is_busy(self) -> bool:
        """The same request may succeed later."""
        return self.status in (429, 503)


class ApiUnreachable(Exception):
    """No answer. The request may have been carried out, unless the connection was never made."""

    def __init__(self, message: str, may_be_done: bool = True) -> None:
        super().__init__(message)
        self.may_be_done = may_be_done


def short(value: object) -> str:
    """A foreign value, cut to a length fit for a message."""
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"
