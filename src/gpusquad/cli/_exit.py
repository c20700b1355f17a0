"""Exit codes of all verbs. They are a stable interface for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpusquad.client.errors import ApiError

OK = 0
JOB_FAILED = 1
"""A job that the verb waited for did not succeed."""
BAD_INPUT = 2
NOT_FOUND = 3
FORBIDDEN = 4
"""Not allowed, or no valid token."""
UNAVAILABLE = 5
"""The service does not answer or is not ready."""
REFUSED = 6
"""Refused: the job can never fit, a quota is used up, or the state of the object does not allow it."""
TIMED_OUT = 124
"""The timeout passed; same code as ``timeout(1)``."""
INTERRUPTED = 130

_BY_STATUS = {401: FORBIDDEN, 403: FORBIDDEN, 404: NOT_FOUND, 409: REFUSED}
_REFUSALS = frozenset({"never_fits", "quota"})


def of_error(error: ApiError) -> int:
    """Exit code for an error answer of the service."""
    if error.code in _REFUSALS:
        return REFUSED
    if error.status == 429 or error.status == 0 or error.status >= 500:
        return UNAVAILABLE
    return _BY_STATUS.get(error.status, BAD_INPUT)


def of_states(states: list[str]) -> int:
    """Exit code for finished jobs."""
    return OK if all(state == "succeeded" for state in states) else JOB_FAILED
