"""When jobs on one card end, if each runs at its rate beside the others."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from gpusquad.model.interference import Rate
from gpusquad.model.job import Job

Left = tuple[Job, float]
"""A job and its remaining time alone on the card."""


def ends(jobs: Sequence[Left], gpu: str, rate: Rate) -> list[float]:
    """Time until each of them ends. Infinite: they do not fit together."""
    left = [max(amount, 0.0) for _, amount in jobs]
    found = [0.0] * len(jobs)
    there, now = [place for place, amount in enumerate(left) if amount > 0], 0.0
    while there:
        speeds = _speeds([jobs[place][0] for place in there], gpu, rate)
        if min(speeds) <= 0:
            return [inf] * len(jobs)
        passed = min(left[place] / speed for place, speed in zip(there, speeds, strict=True))
        now += passed
        stays = []
        for place, speed in zip(there, speeds, strict=True):
            left[place] -= passed * speed
            if left[place] > 1e-9 * max(jobs[place][1], 1.0):
                stays.append(place)
            else:
                found[place] = now
        there = stays
    return found


def _speeds(jobs: Sequence[Job], gpu: str, rate: Rate) -> list[float]:
    """Rate of each job, at most 1: a neighbour never makes a job faster, even if predicted."""
    if len(jobs) == 1:
        return [1.0]
    return [min(rate(job, [*jobs[:place], *jobs[place + 1 :]], gpu), 1.0) for place, job in enumerate(jobs)]
