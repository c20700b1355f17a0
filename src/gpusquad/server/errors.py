"""Errors that services raise. ``api_errors`` converts them to HTTP.

Invalid input is ``model.errors.Invalid``; a store that does not answer is ``store.StoreUnavailable``.
"""

from __future__ import annotations

from gpusquad.model.reasons import Reason


class ServiceError(Exception):
    """A request that cannot be fulfilled."""

    status = 500
    code = "internal"

    def __init__(self, message: str, *, field: str = "", cure: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.cure = cure

    @property
    def retry_after_s(self) -> float | None:
        """Seconds after which a retry may succeed. None: waiting does not help."""
        return None


class Unauthenticated(ServiceError):
    """Unknown caller."""

    status = 401
    code = "unauthenticated"


class Forbidden(ServiceError):
    """Known caller without permission."""

    status = 403
    code = "forbidden"


class NotFound(ServiceError):
    """Does not exist, or is not visible to this caller."""

    status = 404
    code = "not_found"


class Conflict(ServiceError):
    """Conflicts with the current state."""

    status = 409
    code = "conflict"


class JobRefused(ServiceError):
    """The scheduler will never run this job, or not within the tenant's limits."""

    def __init__(self, reason: Reason, *, status: int = 409) -> None:
        super().__init__(reason.message, cure=reason.cure)
        self.reason = reason
        self.status = 422 if reason.code == "never_fits" else status
        self.code = str(reason.code)


class TooLarge(ServiceError):
    """The request is too large."""

    status = 413
    code = "too_large"


class RateLimited(ServiceError):
    """Too many requests of this caller."""

    status = 429
    code = "rate_limited"

    def __init__(self, message: str, wait_s: float) -> None:
        super().__init__(message, cure="wait and retry")
        self.wait_s = wait_s

    @property
    def retry_after_s(self) -> float:
        return self.wait_s


class Unavailable(ServiceError):
    """The service cannot answer now; a retry may succeed."""

    status = 503
    code = "unavailable"

    def __init__(self, message: str, wait_s: float = 1.0) -> None:
        super().__init__(message, cure="retry in a moment")
        self.wait_s = wait_s

    @property
    def retry_after_s(self) -> float:
        return self.wait_s
