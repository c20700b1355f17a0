"""Analysis of the instants at which two jobs finished their steps: speeds while both ran, and after one ended.

Times are seconds from a common start, in order for each job.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from bench.card.training import FIRST, LEAD_IN_S, SECOND

_AFTER_S = 0.5
_SETTLED = 0.9
"""Of its speed later on: the card's clock alone moves by a few percent when a job has ended."""


def progress(done_s: Sequence[float], at_s: float) -> float:
    """Steps done by an instant, those under way by their part."""
    whole = bisect_right(done_s, at_s)
    if whole == len(done_s):
        return float(whole)
    before = done_s[whole - 1] if whole else 0.0
    return whole + (at_s - before) / (done_s[whole] - before) if done_s[whole] > before else float(whole)


def stp(done_s: Mapping[str, Sequence[float]], alone_per_s: Mapping[str, float], from_s: float = LEAD_IN_S) -> float:
    """From the lead-in on until the first of both has ended."""
    to_s = min(times[-1] for times in done_s.values())
    if to_s <= from_s:
        return float("nan")
    return sum(
        (progress(times, to_s) - progress(times, from_s)) / (to_s - from_s) / alone_per_s[name]
        for name, times in done_s.items()
    )


def lost_ms(done_s: Mapping[str, Sequence[float]], after_s: float = _AFTER_S) -> float | None:
    """Lost time of the job that continues, relative to its own speed later in the same run. The speed of another minute
    differs by more than the effect.

    None: it did not continue for long enough. A step in progress is divided evenly, so the resolution is half a step.
    """
    who = stays(done_s)
    end_s, over_s = min(times[-1] for times in done_s.values()), done_s[who][-1]
    if over_s < end_s + 2 * after_s:
        return None
    soon, later, last = (progress(done_s[who], at_s) for at_s in (end_s, end_s + after_s, over_s))
    if last <= later:
        return None
    return 1000 * (after_s - (later - soon) * (over_s - end_s - after_s) / (last - later))


def settled_ms(done_s: Mapping[str, Sequence[float]], after_s: float = _AFTER_S) -> float | None:
    """Time from the end of one job until the other's steps are as short as later. A clock that drifts does not count.

    The rest of the step in progress at the end is unknown: half of it is assumed.
    """
    times = done_s[stays(done_s)]
    end_s = min(one[-1] for one in done_s.values())
    later = _gaps([at_s for at_s in times if at_s >= end_s + after_s])
    if times[-1] < end_s + 2 * after_s or not later:
        return None
    usual_s, soon = median(later), [at_s for at_s in times if at_s >= end_s]
    whole = next(at_s for at_s, gap_s in zip(soon, _gaps(soon), strict=False) if gap_s <= usual_s / _SETTLED)
    return 1000 * max(0.0, whole - end_s - usual_s / 2)


def after_ratio(
    done_s: Mapping[str, Sequence[float]], alone_per_s: Mapping[str, float], after_s: float = _AFTER_S
) -> float | None:
    who = stays(done_s)
    from_s, to_s = min(one[-1] for one in done_s.values()) + after_s, done_s[who][-1]
    if to_s < from_s + after_s:
        return None
    steps = progress(done_s[who], to_s) - progress(done_s[who], from_s)
    return steps / (to_s - from_s) / alone_per_s[who]


def _gaps(times: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


def stays(done: Mapping[str, Sequence[float]]) -> str:
    """The job that continues after the other has ended. Under some conditions it is the one that is shorter alone."""
    return SECOND if done[FIRST][-1] <= done[SECOND][-1] else FIRST
