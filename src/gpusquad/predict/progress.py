"""Predicts the remaining run time from the steps done and the total steps.

The pace is learned without the pauses (evaluations, checkpoints), and the pauses separately. The uncertainty follows
from how well earlier predictions in the same run matched what happened since. At first the prior prediction has more
weight; it loses weight as steps are done.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import accumulate
from math import hypot, isfinite, log, sqrt
from typing import Any

from gpusquad.model.prediction import LEVELS, Quantiles
from gpusquad.model.units import US_PER_S
from gpusquad.predict._pace import PaceTracker, ReportInterval
from gpusquad.predict._prior import MAX_US, blend, remaining_if_running, spread

FORMAT = 1
MIN_GAP_US = 0.9 * US_PER_S  # reports come once a second, some slightly early
"""Reports at shorter intervals are merged."""
LATE = 5
"""After this many reports in a row with an older time, the clock was set back and the reports are not late."""
MAX_VALUE = 2**62
TAIL_S, TAIL_RATIO = 1.0, 0.003
"""Time after the last step (writing results, process exit): seconds, and a fraction of the run so far."""
USUAL_ERROR, USUAL_TRIES = 0.12, 1.5
"""Typical error of pace predictions, and the number of this run's own predictions that it counts for."""
FEW, FEW_S = 0.5, 15.0
"""Error of the first interval and of the first seconds, when the run still warms up."""
BELOW, ABOVE = 0.9, 1.3
"""Runs are delayed more often than they are accelerated."""
UNSEEN_RATIO, EASIER, HARDER = 0.03, 0.6, 0.6
"""After this fraction of the steps, half of what a run contains has been seen. Before that, it may become faster (after
the warm-up) or slower (evaluations) by this much, in logarithms.
"""
FIRST_RATIO, FIRST_TIMES, GUESS = 0.2, 20.0, 0.8
"""A first report with more than this fraction of the steps was not from the start. Reports are rare if none follows
within one of this many parts of the time until the first. The last value is the error of such a prediction.
"""
NEW_RATIO = 0.25
"""A new neighbour counts as if it had been there for this fraction of the run."""
LONGER = 0.5
"""An unexpected pause lasts longer by this fraction of itself."""


@dataclass(slots=True)
class _Clock:
    """Work time: clock time, less the time lost to neighbours. It never goes back."""

    at_us: int
    work_us: float = 0.0
    rate: float = 1.0
    ran_us: float = 0.0
    """Total clock time measured."""
    same_us: float = 0.0
    """Clock time since the last change of the rate."""

    def work(self, at_us: int) -> float:
        return self.work_us + max(at_us - self.at_us, 0) * self.rate

    def move(self, at_us: int) -> None:
        went_us = max(at_us - self.at_us, 0)
        self.work_us += went_us * self.rate
        self.ran_us += went_us
        self.same_us += went_us
        self.at_us += went_us

    def set_rate(self, rate: float) -> None:
        if rate != self.rate:
            self.rate, self.same_us = rate, 0.0

    def stretch(self, work_us: float) -> tuple[float, float]:
        """Clock time per unit of work to come, and the difference between the current and the mean rate.

        The current rate applies first, then the mean rate; the newer the current rate, the sooner.
        """
        if self.work_us <= 0 or self.same_us >= self.ran_us:
            return 1 / self.rate, 0.0
        usual = self.ran_us / self.work_us
        ratio = work_us / self.rate / (self.same_us + NEW_RATIO * self.ran_us)
        stays = log(1 + ratio) / ratio if ratio > 1e-9 else 1.0
        return stays / self.rate + (1 - stays) * usual, abs(1 / self.rate - usual) * (1 - stays)


@dataclass(slots=True)
class _Report:
    """Position of the run, with its work time."""

    work_us: float
    step: int


@dataclass(slots=True)
class ProgressPredictor:
    """The progress of one run. Reports, predictions and storage are cheap."""

    _clock: _Clock | None = None
    _at_us: int | None = None
    """Clock time of the last report."""
    _last: _Report = field(default_factory=lambda: _Report(0.0, 0))
    _begin: _Report = field(default_factory=lambda: _Report(0.0, 0))
    """Start of the open interval."""
    _total: int | None = None
    _late: int = 0
    _pace: PaceTracker = field(default_factory=PaceTracker)

    def see(self, at_us: int, step: int, total: int | None) -> None:
        """Report that ``step`` of ``total`` steps were done at a time. Reports may be repeated and in any order."""
        if not (0 <= step < MAX_VALUE and abs(at_us) < MAX_VALUE):
            return
        total = total if total is not None and 0 < total < MAX_VALUE else None
        if self._clock is None:
            self._clock = _Clock(at_us)
        if self._at_us is None:
            self._begin_at(self._clock, at_us, step)
            self._total = total
        elif self._is_in_time(self._clock, self._at_us, at_us, step):
            self._take(self._clock, at_us, step, total)

    def slowed(self, at_us: int, rate: float) -> None:
        """Set the rate of the run from now on: a neighbour came or went."""
        if not (isfinite(rate) and 0.001 <= rate <= 1000 and abs(at_us) < MAX_VALUE):
            return
        if self._clock is None:
            self._clock = _Clock(at_us)
        self._clock.move(at_us)
        self._clock.set_rate(rate)

    def remaining(self, now_us: int, prior: Quantiles | None, started_us: int) -> Quantiles | None:
        """The remaining time in microseconds at ``LEVELS``. None: not predictable from the steps. ``prior``: the total
        run time as predicted before the start.
        """
        if self._clock is None or self._at_us is None or self._total is None:
            return None
        now_us, started_us = (min(max(at_us, -MAX_VALUE), MAX_VALUE) for at_us in (now_us, started_us))
        ran_us = float(max(now_us - started_us, 0))
        own = self._own(self._clock, self._total, now_us, started_us)
        if own is None:
            return None
        values, confidence = own
        if prior is not None and prior.confidence > 0:
            values = blend(values, remaining_if_running(prior, ran_us), prior.confidence)
        whole = accumulate((round(min(max(value, 0.0), MAX_US)) for value in values), max)
        return Quantiles(LEVELS, tuple(whole), "progress", confidence)

    def dump(self) -> dict[str, Any]:
        """The state as plain JSON."""
        return {"format": FORMAT, "clock": None if self._clock is None else asdict(self._clock), "at_us": self._at_us,
                "last": asdict(self._last), "begin": asdict(self._begin), "total": self._total, "late": self._late,
                "pace": self._pace.dump()}  # fmt: skip

    @classmethod
    def load(cls, dumped: dict[str, Any]) -> ProgressPredictor:
        """Load a ``dump``. Raises ValueError, KeyError or TypeError for anything else."""
        if dumped["format"] != FORMAT:
            raise ValueError(f"progress of format {dumped['format']!r} instead of {FORMAT}")
        clock = None if dumped["clock"] is None else _Clock(**dumped["clock"])
        return cls(clock, dumped["at_us"], _Report(**dumped["last"]), _Report(**dumped["begin"]), dumped["total"],
                   dumped["late"], PaceTracker.load(dumped["pace"]))  # fmt: skip

    # -- reports ---------------------------------------------------------------------------------------------------

    def _is_in_time(self, clock: _Clock, last_us: int, at_us: int, step: int) -> bool:
        """Whether a report counts. One that is older than the last was overtaken on its way and does not count, unless
        it has more steps. If older reports keep coming, the clock was set back and they count.
        """
        if at_us >= last_us:
            self._late = 0
            return True
        self._late += 1
        if step <= self._last.step and self._late < LATE:
            return False
        clock.at_us = at_us
        self._begin_at(clock, at_us, step)
        return False

    def _begin_at(self, clock: _Clock, at_us: int, step: int) -> None:
        """Start counting here, regardless of earlier reports."""
        clock.move(at_us)
        self._at_us, self._late = at_us, 0
        self._last, self._begin = _Report(clock.work_us, step), _Report(clock.work_us, step)

    def _take(self, clock: _Clock, at_us: int, step: int, total: int | None) -> None:
        went_back, other_total = step < self._last.step, total != self._total
        self._total = total
        if went_back:
            if other_total:
                self._pace = PaceTracker()  # a new count of other steps, not a repetition
            else:
                self._pace.rewind(step)
            self._begin_at(clock, at_us, step)
            return
        if step == self._last.step:
            return
        clock.move(at_us)
        self._at_us, self._last = at_us, _Report(clock.work_us, step)
        took_us = clock.work_us - self._begin.work_us
        if took_us >= MIN_GAP_US * clock.rate:
            self._pace.add(ReportInterval(step - self._begin.step, took_us, step), total)
            self._begin = _Report(clock.work_us, step)

    # -- prediction ------------------------------------------------------------------------------------------------

    def _own(self, clock: _Clock, total: int, now_us: int, started_us: int) -> tuple[tuple[float, ...], float] | None:
        """From the steps alone: the distribution in clock time, and its evidence."""
        left = max(total - self._last.step, 0)
        waited_us = max(clock.work(now_us) - self._last.work_us, 0.0)
        if not self._pace.intervals:
            return self._guess(left, total, waited_us / clock.rate, started_us)
        ran_us = float(max(now_us - started_us, 0))
        middle_us, deviation_us = self._left(left, total, waited_us, ran_us)
        factor, apart = clock.stretch(middle_us)
        off = hypot(deviation_us / middle_us, apart / factor)
        sigma, unseen = sqrt(log(1 + off**2)), UNSEEN_RATIO / (UNSEEN_RATIO + self._part(left))
        below, above = (hypot(side * sigma, early * unseen) for side, early in ((BELOW, EASIER), (ABOVE, HARDER)))
        return spread(middle_us * factor, below, above), self._confidence(left)

    def _guess(
        self, left: int, total: int, waited_us: float, started_us: int
    ) -> tuple[tuple[float, ...], float] | None:
        """Prediction from a single report with none after it for a while, as from a run that reports once per epoch.
        All time since the start went into these steps, if the count started at the first step.
        """
        took_us = (self._at_us or 0) - started_us
        if not 0 < self._last.step <= FIRST_RATIO * total or not 0 < took_us < FIRST_TIMES * waited_us:
            return None
        middle_us = took_us / self._last.step * left
        return spread(max(middle_us - min(waited_us, took_us), 0.5 * middle_us), GUESS, GUESS), 0.02

    def _left(self, left: int, total: int, waited_us: float, ran_us: float) -> tuple[float, float]:
        """The remaining work time and its error."""
        pace = self._pace
        steps, pauses = pace.predict_steps(left, total), pace.predict_pauses(self._last.step, total)
        tail_us = TAIL_S * US_PER_S + TAIL_RATIO * ran_us
        whole_us = steps.us + pauses.us + tail_us
        expected_us = min(pace.typical_us(), steps.us) if left else tail_us
        expected_us += pauses.one_us if pauses.is_due else 0.0
        overdue_us = max(waited_us - expected_us, 0.0)
        middle_us = max(whole_us - min(waited_us, expected_us), 0.0) + LONGER * overdue_us
        usual = (steps.tries * steps.error**2 + USUAL_TRIES * USUAL_ERROR**2) / (steps.tries + USUAL_TRIES)
        error = hypot(sqrt(usual), self._youth())
        deviation_us = hypot(error * steps.us, pauses.spread_us, tail_us, overdue_us)
        return max(middle_us, 0.1 * US_PER_S), deviation_us

    def _youth(self) -> float:
        seen_s = self._pace.seen_us() / US_PER_S
        return FEW * hypot(1 / self._pace.intervals, FEW_S / (FEW_S + seen_s))

    def _part(self, left: int) -> float:
        """The fraction of the steps that was observed."""
        done = self._pace.seen_steps()
        return done / (done + left)

    def _confidence(self, left: int) -> float:
        part, count = self._part(left), self._pace.intervals
        return part / (part + UNSEEN_RATIO) * count / (count + 3)
