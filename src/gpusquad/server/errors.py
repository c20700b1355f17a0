"""What a service refuses, in the words an answer needs. ``api_errors`` turns them into HTTP.

Bad input is ``model.errors.Invalid``; a store that does not answer is ``store.StoreUnavailable``.
"""

from __future__ import annotations

from gpusquad.model.reasons import Reason


class ServiceError(Exception):
    """A request that cannot be met as it stands."""

    status = 500
    code = "internal"

    def __init__(self, message: str, *, field: str = "", cure: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.cure = cure

    @property
    def retry_after_s(self) -> float | None:
        """When it may be worth another try; None: not by waiting."""
        return None


class Unauthenticated(ServiceError):
    """Nobody we know."""

    status = 401
    code = "unauthenticated"


class Forbidden(ServiceError):
    """Known, and not allowed to."""

    status = 403
    code = "forbidden"


class NotFound(ServiceError):
    """No such thing, or none that this caller may know of."""

    status = 404
    code = "not_found"


class Conflict(ServiceError):
    """What is there now does not allow it."""

    status = 409
    code = "conflict"


class JobRefused(ServiceError):
    """The scheduler will never, or not within the tenant's limits, run this."""

    def __init__(self, reason: Reason, *, status: int = 409) -> None:
        super().__init__(reason.message, cure=reason.cure)
        self.reason = reason
        self.status = 422 if reason.code == "never_fits" else status
        self.code = str(reason.code)


class TooLarge(ServiceError):
    """More than one request may carry."""

    status = 413
    code = "too_large"


class RateLimited(ServiceError):
    """Faster than this caller may ask."""

    status = 429
    code = "rate_limited"

    def __init__(self, message: str, wait_s: float) -> None:
        super().__init__(message, cure="wait and try again")
        self.wait_s = wait_s

    @property
    def retry_after_s(self) -> float:
        return self.wait_s


class Unavailable(ServiceError):
    """The service cannot answer now; asking again may help."""

    status = 503
    code = "unavailable"

    def __init__(self, message: str, wait_s: float = 1.0) -> None:
        super().__init__(message, cure="try again in a moment")
        self.wait_s = wait_s

    @property
    def retry_after_s(self) -> float:
        return self.wait_s
