"""Past runs in the order in which they were lived: foretold when they came, begun, and learned from when over.

Whoever learns from being wrong has to say something before it hears the truth, and knows then what was known then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from gpusquad.model.prediction import PastRun

MOST_FORETOLD = 20_000
"""Of the runs of the past, the newest so many are foretold before they are learned; older ones are only learned."""
Moment = Literal["came", "begins", "ended"]


def as_lived(runs: Sequence[PastRun]) -> Iterator[tuple[Moment, int, int]]:
    """What happened, to which of the runs, and when. They are given by their ends, the oldest first, and end in that
    order whatever their clocks say. What ended at an instant is known to what comes then."""
    before = sorted(_before_the_ends(runs))
    told = 0
    for index, run in enumerate(runs):
        while told < len(before) and before[told][0] < run.ended_us:
            at_us, begins, which = before[told]
            yield "begins" if begins else "came", which, at_us
            told += 1
        yield "ended", index, run.ended_us


def _before_the_ends(runs: Sequence[PastRun]) -> Iterator[tuple[int, bool, int]]:
    """When each came and when it was on its cards: some time before its end. Who runs again comes again then."""
    free_us: dict[str, int] = {}
    for index, run in enumerate(runs):
        last_us = run.ended_us - 1
        came_us = min(max(run.job.submitted_us, free_us.get(run.job.id, 0)), last_us)
        free_us[run.job.id] = run.ended_us
        yield came_us, False, index
        yield min(max(came_us, run.ended_us - run.run_us), last_us), True, index
