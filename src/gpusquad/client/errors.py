"""Errors of requests: refused, or not answered."""

from __future__ import annotations


class ApiError(Exception):
    """An error answer. ``status`` is the HTTP status; ``code`` is for programs."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        field: str = "",
        cure: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.cure = cure
        self.retry_after_s = retry_after_s
        """Seconds after which the service asks to retry."""
        super().__init__((f"{field}: " if field else "") + message + (f" ({cure})" if cure else ""))

    @property
    def may_pass(self) -> bool:
        """Whether a retry may succeed."""
        return self.status in (429, 502, 503, 504)


class ServiceUnreachable(ApiError):
    """The service does not answer, or the connection broke."""

    def __init__(self, message: str, cure: str = "") -> None:
        super().__init__(0, "unreachable", message, cure=cure)

    @property
    def may_pass(self) -> bool:
        return True
