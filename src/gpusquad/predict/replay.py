"""Replays past runs in their original order: predicted at submission, started, and learned at their end.

A predictor that learns from its errors has to predict before it learns the actual run time, with only what was known at
that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from gpusquad.model.prediction import PastRun

MAX_PREDICTED = 20_000
"""Number of past runs, the newest ones, that are predicted before they are learned. Older ones are only learned."""
Moment = Literal["came", "begins", "ended"]


def in_original_order(runs: Sequence[PastRun]) -> Iterator[tuple[Moment, int, int]]:
    """The events, with the run's index and time.

    Runs are given in the order of their ends, oldest first, and end in that order whatever their clocks show. An end at
    a given time is known to a submission at the same time.
    """
    before = sorted(_submissions_and_starts(runs))
    position = 0
    for index, run in enumerate(runs):
        while position < len(before) and before[position][0] < run.ended_us:
            at_us, begins, which = before[position]
            yield "begins" if begins else "came", which, at_us
            position += 1
        yield "ended", index, run.ended_us


def _submissions_and_starts(runs: Sequence[PastRun]) -> Iterator[tuple[int, bool, int]]:
    """When each run was submitted and when it started, relative to its end. A job that runs again is submitted again
    then.
    """
    free_us: dict[str, int] = {}
    for index, run in enumerate(runs):
        last_us = run.ended_us - 1
        came_us = min(max(run.job.submitted_us, free_us.get(run.job.id, 0)), last_us)
        free_us[run.job.id] = run.ended_us
        yield came_us, False, index
        yield min(max(came_us, run.ended_us - run.run_us), last_us), True, index
