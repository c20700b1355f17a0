"""What orders by predicted time do with a job of which nothing is predicted."""

from __future__ import annotations

from gpusquad.model.views import RunTimePrediction

NO_ESTIMATE = "none"
"""The source of a forecast that has nothing to stand on; its numbers are a stopgap for the plan."""


def is_unknown(prediction: RunTimePrediction) -> bool:
    """Such a job counts as the longest: leaving the estimate out must not be a way to the front."""
    return prediction.source == NO_ESTIMATE
