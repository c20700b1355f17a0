"""Why, when, what if (being written)."""

from __future__ import annotations

from gpusquad.core.state import State
from gpusquad.model.job import Job
from gpusquad.model.reasons import Code, Reason


def why_never(state: State, job: Job) -> Reason:
    return Reason(Code.NEVER_FITS, "no state of the configured cluster could hold it")
