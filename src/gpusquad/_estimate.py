"""``gpusquad.estimate``: how long a model's job will run and what memory it takes, before anything has run."""

from __future__ import annotations

from gpusquad.predict.analytical.estimate import RunEstimate, estimate

__all__ = ["RunEstimate", "estimate"]
