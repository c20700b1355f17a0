"""The pace of a run's steps and its pauses, learned from a stream of reports.

All times are work time: microseconds as they would be if the run had its card to itself, where that is known. Memory is
bounded: old reports are merged into segments, and old predictions are dropped.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import pairwise
from math import log, sqrt
from typing import Any

from gpusquad.predict._pauses import FuturePauses, Pause, predict_pauses

WINDOW = 5
"""Number of intervals that are compared with each other. One slow interval among them is a pause; several are a new
pace.
"""
MAX_SEGMENTS = 48
MAX_PAUSES = 32
MAX_MARKS = 14
GRAIN_US = 1e6
MARK_GROWTH = 1.2
"""A prediction is recorded each time the step count has grown by this factor, so that its error can be measured later.
"""
PAUSE_RATIO = 0.7
"""Minimum length of a pause, as a multiple of what its interval took without it."""
SPREADS = 8.0
"""A pause must also exceed its neighbours by this many times their spread."""
CHANGE_SCORE = 12.0
"""Minimum certainty of a change of pace (a squared t)."""
MAX_CHANGES = 3
WARM_UP_RATIO = 0.03
"""A slow start within this fraction of the steps is a warm-up, which does not recur."""
MIN_SPANS_FOR_TREND = 6
REACH, MAX_GROWTH = 0.7, 3.0
"""A trend is extrapolated over this multiple of the steps it was observed on, and up to this multiple of the current
pace.
"""
RECORD_FLOOR = 0.03
"""Predictions with an error below this count as equally good."""
TREND_PRIOR = 0.25
"""Weight of the trend before there is a record. Most runs have no trend."""
MIN_RECORDS = 3


@dataclass(frozen=True, slots=True)
class StepSpan:
    """A number of steps and the time they took."""

    steps: float
    us: float

    @property
    def pace(self) -> float:
        return self.us / self.steps


@dataclass(frozen=True, slots=True)
class ReportInterval(StepSpan):
    """The steps between two reports."""

    end: int
    """The step at its end."""


@dataclass(frozen=True, slots=True)
class PaceEstimate:
    """The pace expected of the remaining steps, as estimated at one time: constant, or following a trend."""

    last: float
    """Microseconds per step since the last change of pace."""
    mean: float
    """Microseconds per step over the whole run."""
    age_us: float
    """Time since the last change of pace."""
    level: float
    """Current microseconds per step of the trend."""
    slope: float
    """Change of the trend's microseconds per step, per step."""
    reach: float
    """Number of steps over which the trend is extrapolated."""

    def steady_us(self, steps: float) -> float:
        """Time of the next steps at the current pace.

        An old pace is likely to last; a new one is as likely to end. A pace of age a survives another x with
        probability a / (a + x). After that the mean pace applies.
        """
        if steps <= 0:
            return 0.0
        next_us = self.last * steps
        if next_us <= 0 or self.age_us <= 0:
            return self.mean * steps
        ratio = next_us / self.age_us
        stays = log(1 + ratio) / ratio if ratio > 1e-9 else 1.0
        return steps * (stays * self.last + (1 - stays) * self.mean)

    def trend_us(self, steps: float) -> float:
        """Time of the next steps if the trend continues, within its limits of length and growth."""
        if steps <= 0:
            return 0.0
        growing = min(steps, self.reach)
        last = min(max(self.level + self.slope * growing, self.level / MAX_GROWTH), self.level * MAX_GROWTH)
        return (self.level + last) / 2 * growing + last * (steps - growing)


@dataclass(frozen=True, slots=True)
class PaceMark:
    """A recorded estimate, and the progress of the run at that time."""

    steps: float
    us: float
    outlook: PaceEstimate


@dataclass(frozen=True, slots=True)
class RemainingSteps:
    """The time of the remaining steps, without pauses."""

    us: float
    error: float
    """Error of such predictions in this run (standard deviation of the logarithm)."""
    tries: float
    """Number of such predictions."""


@dataclass(slots=True)
class PaceTracker:
    """The pace and the pauses of one run."""

    recent: list[ReportInterval] = field(default_factory=list)
    waiting: int = 0
    """Number of recent intervals, from the end, that are not in the segments yet. Later intervals decide what they are.
    """
    segments: list[StepSpan] = field(default_factory=list)
    grain_us: float = GRAIN_US
    steps: float = 0.0
    us: float = 0.0
    """Time that went into segments."""
    pauses: list[Pause] = field(default_factory=list)
    """The latest pauses."""
    paused: int = 0
    """Number of pauses in total."""
    intervals: int = 0
    marks: list[PaceMark] = field(default_factory=list)

    def add(self, interval: ReportInterval, total: float | None) -> None:
        """Add one interval in constant time."""
        self.recent.append(interval)
        self.waiting += 1
        self.intervals += 1
        if len(self.recent) > WINDOW:
            self.recent.pop(0)
        if len(self.recent) == WINDOW:
            while self.waiting > WINDOW // 2:
                self._merge_interval(self.recent[-self.waiting])
                self.waiting -= 1
            self._mark(total)

    def rewind(self, step: int) -> None:
        """Return to a checkpoint: the pace stays the same, and the pauses after it will occur again."""
        while self.waiting:
            self._merge_interval(self.recent[-self.waiting])
            self.waiting -= 1
        self.recent = []
        self.pauses = [pause for pause in self.pauses if pause.end <= step]

    def typical_us(self) -> float:
        """Typical time between two reports at present."""
        return _low_median([interval.us for interval in self.recent]) if self.recent else 0.0

    def typical_steps(self) -> float:
        return _low_median([interval.steps for interval in self.recent]) if self.recent else 0.0

    def seen_us(self) -> float:
        return self.us + sum(interval.us for interval in self.recent[len(self.recent) - self.waiting :])

    def seen_steps(self) -> float:
        return self.steps + sum(interval.steps for interval in self.recent[len(self.recent) - self.waiting :])

    # -- remaining steps -------------------------------------------------------------------------------------------

    def predict_steps(self, steps: float, total: float) -> RemainingSteps:
        """The time of the next ``steps`` steps."""
        spans = self._spans()
        outlook = _estimate(spans, total)
        done = sum(span.steps for span in spans)
        busy_us = sum(span.us for span in spans)
        weight, error, tries = self._record(done, busy_us, steps)
        us = (1 - weight) * outlook.steady_us(steps) + weight * outlook.trend_us(steps)
        return RemainingSteps(us, error, tries)

    def _record(self, done: float, busy_us: float, steps: float) -> tuple[float, float, float]:
        """The weight of the trend, the error of past predictions and their number. Predictions over a similar distance
        count most.
        """
        wanted = steps / max(done, 1.0)
        sums = [0.0, 0.0, 0.0]
        seen = []
        for mark in self.marks:
            since, took_us = done - mark.steps, busy_us - mark.us
            if since < 0.1 * mark.steps or took_us <= 0:
                continue
            near = 1 / (1 + log(max(since / mark.steps, 1e-9) / max(wanted, 1e-9)) ** 2)
            steady, trend = mark.outlook.steady_us(since), mark.outlook.trend_us(since)
            errors = log(max(steady, 1.0) / took_us), log(max(trend, 1.0) / took_us)
            seen.append((near, steady, trend, took_us))
            sums = [sums[0] + near, sums[1] + near * errors[0] ** 2, sums[2] + near * errors[1] ** 2]
        if not seen:
            return 0.0, 0.0, 0.0
        weight = 0.0
        if len(seen) >= MIN_RECORDS:
            good = [1 / (part / sums[0] + RECORD_FLOOR**2) for part in sums[1:]]
            weight = TREND_PRIOR * good[1] ** 2 / (TREND_PRIOR * good[1] ** 2 + (1 - TREND_PRIOR) * good[0] ** 2)
        squares = sum(
            near * log(max((1 - weight) * steady + weight * trend, 1.0) / took) ** 2
            for near, steady, trend, took in seen
        )
        return weight, sqrt(squares / sums[0]), sums[0]

    def _spans(self) -> list[StepSpan]:
        """All spans, with the newest as they look now."""
        if not self.waiting:
            return self.segments
        typical, spread = self._usual()
        new = [StepSpan(i.steps, _split(i, typical, spread)[0]) for i in self.recent[-self.waiting :]]
        return self.segments + new

    def _usual(self) -> tuple[float, float]:
        """The pace of the last intervals and their spread: the smaller of the deviation from the median and the
        difference from one to the next. If the pace has just changed, only the second is small.
        """
        paces = [interval.pace for interval in self.recent]
        if not paces:  # the pace of before has just ended
            return 0.0, 0.0
        typical = _low_median(paces)
        if len(paces) < 3:
            return typical, 0.0
        steps = [abs(b - a) for a, b in pairwise(paces)]
        return typical, min(_low_median([abs(pace - typical) for pace in paces]), _low_median(steps))

    # -- future pauses ---------------------------------------------------------------------------------------------

    def predict_pauses(self, step: float, total: float) -> FuturePauses:
        """The pauses to expect if they continue as regularly as so far."""
        new = self._new_pauses()
        density = (self.paused + len(new)) / max(self.seen_steps(), 1.0)
        return predict_pauses(self.pauses + new, step, total, self.typical_steps(), density, self.us)

    def _new_pauses(self) -> list[Pause]:
        """Pauses in intervals that are not in a segment yet. The very first interval is slow for other reasons."""
        if self.intervals < 3:
            return []
        typical, spread = self._usual()
        new = self.recent[len(self.recent) - min(self.waiting, self.intervals - 1) :]
        found = ((interval, _split(interval, typical, spread)[1]) for interval in new)
        return [Pause(i.end - i.steps, i.end, pause_us) for i, pause_us in found if pause_us > 0]

    # -- processing of an interval ---------------------------------------------------------------------------------

    def _merge_interval(self, interval: ReportInterval) -> None:
        busy_us, pause_us = _split(interval, *self._usual())
        is_first = self.steps == 0
        self.steps += interval.steps
        self.us += busy_us
        self._keep(StepSpan(interval.steps, busy_us))
        if pause_us > 0 and not is_first:  # the extra time of the first interval was its start
            self.pauses.append(Pause(interval.end - interval.steps, interval.end, pause_us))
            del self.pauses[:-MAX_PAUSES]
            self.paused += 1

    def _keep(self, span: StepSpan) -> None:
        segments = self.segments
        if segments and segments[-1].us < self.grain_us:
            segments[-1] = _joined(segments[-1], span)
            return
        segments.append(span)
        if len(segments) > MAX_SEGMENTS:
            self.grain_us *= 2
            odd = segments[-1:] if len(segments) % 2 else []
            self.segments = [_joined(a, b) for a, b in zip(segments[::2], segments[1::2], strict=False)] + odd

    def _mark(self, total: float | None) -> None:
        """Record the current estimate from time to time, to compare it with what follows."""
        if self.marks and self.steps < MARK_GROWTH * self.marks[-1].steps:
            return
        self.marks.append(PaceMark(self.steps, self.us, _estimate(self.segments, total)))
        del self.marks[:-MAX_MARKS]

    # -- serialisation ---------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def load(cls, dumped: dict[str, Any]) -> PaceTracker:
        pace = cls(**dumped)
        pace.recent = [ReportInterval(**one) for one in dumped["recent"]]
        pace.segments = [StepSpan(**one) for one in dumped["segments"]]
        pace.pauses = [Pause(**one) for one in dumped["pauses"]]
        pace.marks = [PaceMark(one["steps"], one["us"], PaceEstimate(**one["outlook"])) for one in dumped["marks"]]
        return pace


def _low_median(values: list[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def _joined(a: StepSpan, b: StepSpan) -> StepSpan:
    return StepSpan(a.steps + b.steps, a.us + b.us)


def _split(interval: ReportInterval, typical: float, spread: float) -> tuple[float, float]:
    """The time an interval spent on steps, and its pause if it took much longer than its neighbours."""
    usual_us = typical * interval.steps
    extra_us = interval.us - usual_us
    if extra_us <= max(PAUSE_RATIO * usual_us, SPREADS * spread * interval.steps):
        return interval.us, 0.0
    return usual_us, extra_us


def _estimate(spans: list[StepSpan], total: float | None) -> PaceEstimate:
    warm = spans[_warm_up(spans, total) :]
    logs = [log(max(span.pace, 1e-6)) for span in warm]
    longest_us = max(max(span.us for span in warm), 1e-6)
    weights = [max(span.us / longest_us, 0.02) for span in warm]
    now = warm[_last_change(logs, weights) :]
    mean, last = (sum(s.us for s in part) / sum(s.steps for s in part) for part in (warm, now))
    level, slope = _trend(warm, last)
    reach = REACH * sum(span.steps for span in warm)
    return PaceEstimate(last, mean, sum(span.us for span in now), level, slope, reach)


def _warm_up(spans: list[StepSpan], total: float | None) -> int:
    """The number of spans at the start that were slow because of the warm-up."""
    if len(spans) < 2:
        return 0
    slow = 1.25 * _low_median([span.pace for span in spans])
    most = max(spans[0].steps, WARM_UP_RATIO * (total or 0.0))
    steps, count = 0.0, 0
    while count < len(spans) - 1 and spans[count].pace > slow and steps + spans[count].steps <= most:
        steps += spans[count].steps
        count += 1
    return count


def _last_change(logs: list[float], weights: list[float]) -> int:
    """The start of the current pace: the most certain change, then the most certain one after it, and so on."""
    if len(logs) < 3:
        return 0
    noise = max(_low_median([abs(b - a) for a, b in pairwise(logs)]) / (0.6745 * sqrt(2)), 0.01)
    start = 0
    for _ in range(MAX_CHANGES):
        at, score, step = _surest_change(logs[start:], weights[start:])
        if score < CHANGE_SCORE * noise**2 or abs(step) < 0.05:
            break
        start += at
    return start


def _surest_change(logs: list[float], weights: list[float]) -> tuple[int, float, float]:
    """The position at which the means before and after differ most, its score, and the difference."""
    all_weight = sum(weights)
    all_sum = sum(weight * value for weight, value in zip(weights, logs, strict=True))
    best = (0, 0.0, 0.0)
    weight_before = sum_before = 0.0
    for at in range(1, len(logs)):
        weight_before += weights[at - 1]
        sum_before += weights[at - 1] * logs[at - 1]
        weight_after = all_weight - weight_before
        step = (all_sum - sum_before) / weight_after - sum_before / weight_before
        score = weight_before * weight_after / all_weight * step * step
        if score > best[1]:
            best = (at, score, step)
    return best


def _trend(spans: list[StepSpan], last: float) -> tuple[float, float]:
    """A straight line through the paces: its end and its slope. The slope is reduced if it is uncertain."""
    if len(spans) < MIN_SPANS_FOR_TREND:
        return last, 0.0
    places, at = [], 0.0
    for span in spans:
        places.append(at + span.steps / 2)
        at += span.steps
    weights = [span.steps for span in spans]
    middle = sum(w * x for w, x in zip(weights, places, strict=True)) / at
    mean = sum(span.us for span in spans) / at
    across = sum(w * (x - middle) ** 2 for w, x in zip(weights, places, strict=True))
    along = sum(w * (x - middle) * (span.pace - mean) for w, x, span in zip(weights, places, spans, strict=True))
    if across <= 0:
        return last, 0.0
    slope = along / across
    off = sum(
        w * (span.pace - mean - slope * (x - middle)) ** 2 for w, x, span in zip(weights, places, spans, strict=True)
    )
    sure = slope**2 * across * (len(spans) - 2) / max(off, 1e-12)
    slope *= sure / (sure + 8)
    return max(mean + slope * (at - middle), 0.1 * last), slope
