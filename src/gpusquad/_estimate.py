"""``gpusquad.estimate``: offline estimate of a model's run time and memory."""

from __future__ import annotations

from gpusquad.predict.analytical.estimate import RunEstimate, estimate

__all__ = ["RunEstimate", "estimate"]
