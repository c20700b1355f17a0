"""Jobs without a prediction in order policies by predicted time."""

from __future__ import annotations

from gpusquad.model.views import RunTimePrediction

NO_ESTIMATE = "none"
"""Source of a prediction without evidence. Its numbers are placeholders for the plan."""


def is_unknown(prediction: RunTimePrediction) -> bool:
    """Whether there is no prediction. Such a job counts as the longest, so that omitting the estimate brings no
    advantage."""
    return prediction.source == NO_ESTIMATE
