"""Exit codes of every verb, in one place. Scripts may rely on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpusquad.client.errors import ApiError

OK = 0
JOB_FAILED = 1
"""A job that was waited for did not succeed."""
BAD_INPUT = 2
NOT_FOUND = 3
FORBIDDEN = 4
"""Not allowed, or nobody the service knows."""
UNAVAILABLE = 5
"""No service answers, or it cannot do so now."""
REFUSED = 6
"""Understood and turned down: it never fits, a quota is used up, or things stand in its way."""
TIMED_OUT = 124
"""Waiting took longer than asked; as ``timeout`` does."""
INTERRUPTED = 130

_BY_STATUS = {401: FORBIDDEN, 403: FORBIDDEN, 404: NOT_FOUND, 409: REFUSED}
_REFUSALS = frozenset({"never_fits", "quota"})


def of_error(error: ApiError) -> int:
    """The code for what a service answered."""
    if error.code in _REFUSALS:
        return REFUSED
    if error.status == 429 or error.status == 0 or error.status >= 500:
        return UNAVAILABLE
    return _BY_STATUS.get(error.status, BAD_INPUT)


def of_states(states: list[str]) -> int:
    """The code for jobs that are over."""
    return OK if all(state == "succeeded" for state in states) else JOB_FAILED
