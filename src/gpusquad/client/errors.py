"""What a service refuses, and what happens when none answers."""

from __future__ import annotations


class ApiError(Exception):
    """An answer that is not the one asked for. ``status`` is that of HTTP; ``code`` is for programs."""

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
        """How long the service asks to be left alone, where it does."""
        super().__init__((f"{field}: " if field else "") + message + (f" ({cure})" if cure else ""))

    @property
    def may_pass(self) -> bool:
        """Whether the same request may be answered a little later."""
        return self.status in (429, 502, 503, 504)


class ServiceUnreachable(ApiError):
    """Nobody answers, or the connection broke."""

    def __init__(self, message: str, cure: str = "") -> None:
        super().__init__(0, "unreachable", message, cure=cure)

    @property
    def may_pass(self) -> bool:
        return True
