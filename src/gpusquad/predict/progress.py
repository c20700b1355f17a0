"""How much longer a run takes, from the steps it has done of those it has to do.

The pace is learned without the pauses (evaluations, checkpoints), the pauses by themselves. How sure it is follows
from how well it would have foretold what has happened since, in this very run. At first what was believed before
the run began says more; it gives way as the steps go by.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import accumulate
from math import hypot, isfinite, log, sqrt
from typing import Any

from gpusquad.model.prediction import LEVELS, Quantiles
from gpusquad.model.units import US_PER_S
from gpusquad.predict._pace import PaceTracker, ReportInterval
from gpusquad.predict._prior import MOST_US, blended, spread, still_running

FORMAT = 1
LEAST_GAP_US = 0.9 * US_PER_S  # they come once a second, some a little early
"""Reports that come faster are taken together."""
LATE = 5
"""So many reports in a row from the past: not they are late, the clock was set back."""
MOST = 2**62
TAIL_S, TAIL_RATIO = 1.0, 0.003
"""What comes after the last step (last results to disk, the end of a process): seconds, and part of the run so far."""
USUAL_ERROR, USUAL_TRIES = 0.12, 1.5
"""How far off forecasts of pace are in most runs, and how many own tries that is worth."""
FEW, FEW_S = 0.5, 15.0
"""How far off a first interval may be, or what is seen in the first seconds, when things still warm up."""
BELOW, ABOVE = 0.9, 1.3
"""Runs are held up more often than they are hurried."""
UNSEEN_RATIO, EASIER, HARDER = 0.03, 0.6, 0.6
"""After this part of the steps half of what may be in a run was seen; before that it may become easier (when it is
warm) or harder (its evaluations) by so much, in logarithms."""
FIRST_RATIO, FIRST_TIMES, GUESS = 0.2, 20.0, 0.8
"""A first report that counts more of the steps than this was not from the beginning; it is rare if none follows for
one of so many parts of the time until it came; and this is how far off it may be."""
NEW_RATIO = 0.25
"""A neighbour who has just come is taken for one who has been there for this part of the run."""
LONGER = 0.5
"""A pause that nobody expected lasts that part of itself longer."""


@dataclass(slots=True)
class _Clock:
    """Work time: the time by the clock, less what neighbours took. Never goes back."""

    at_us: int
    work_us: float = 0.0
    rate: float = 1.0
    ran_us: float = 0.0
    """All the time it has measured, by the clock."""
    same_us: float = 0.0
    """And that since the rate last changed."""

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
        """The time by the clock of so much work, as a factor: first as it is now, then as it was on the whole, the
        sooner the newer the present is. And how far the two are apart."""
        if self.work_us <= 0 or self.same_us >= self.ran_us:
            return 1 / self.rate, 0.0
        usual = self.ran_us / self.work_us
        ratio = work_us / self.rate / (self.same_us + NEW_RATIO * self.ran_us)
        stays = log(1 + ratio) / ratio if ratio > 1e-9 else 1.0
        return stays / self.rate + (1 - stays) * usual, abs(1 / self.rate - usual) * (1 - stays)


@dataclass(slots=True)
class _Report:
    """Where the run was, and when, in work time."""

    work_us: float
    step: int


@dataclass(slots=True)
class ProgressPredictor:
    """Of one run. Cheap to tell, cheap to ask, small to keep."""

    _clock: _Clock | None = None
    _at_us: int | None = None
    """Of the last report, by the clock."""
    _last: _Report = field(default_factory=lambda: _Report(0.0, 0))
    _begin: _Report = field(default_factory=lambda: _Report(0.0, 0))
    """Where the interval that is open began."""
    _total: int | None = None
    _late: int = 0
    _pace: PaceTracker = field(default_factory=PaceTracker)

    def see(self, at_us: int, step: int, total: int | None) -> None:
        """A report: so many steps of so many were done then. In any order, any number of times."""
        if not (0 <= step < MOST and abs(at_us) < MOST):
            return
        total = total if total is not None and 0 < total < MOST else None
        if self._clock is None:
            self._clock = _Clock(at_us)
        if self._at_us is None:
            self._begin_at(self._clock, at_us, step)
            self._total = total
        elif self._is_in_time(self._clock, self._at_us, at_us, step):
            self._take(self._clock, at_us, step, total)

    def slowed(self, at_us: int, rate: float) -> None:
        """From now on it runs at this part of the speed it has alone: a neighbour came or went."""
        if not (isfinite(rate) and 0.001 <= rate <= 1000 and abs(at_us) < MOST):
            return
        if self._clock is None:
            self._clock = _Clock(at_us)
        self._clock.move(at_us)
        self._clock.set_rate(rate)

    def remaining(self, now_us: int, prior: Quantiles | None, started_us: int) -> Quantiles | None:
        """How much longer, in microseconds at ``LEVELS``. None: it cannot be told from the steps; ask others.
        ``prior``: the whole run time, as it was believed before the run began."""
        if self._clock is None or self._at_us is None or self._total is None:
            return None
        now_us, started_us = (min(max(at_us, -MOST), MOST) for at_us in (now_us, started_us))
        ran_us = float(max(now_us - started_us, 0))
        own = self._own(self._clock, self._total, now_us, started_us)
        if own is None:
            return None
        values, confidence = own
        if prior is not None and prior.confidence > 0:
            values = blended(values, still_running(prior, ran_us), prior.confidence)
        whole = accumulate((round(min(max(value, 0.0), MOST_US)) for value in values), max)
        return Quantiles(LEVELS, tuple(whole), "progress", confidence)

    def dump(self) -> dict[str, Any]:
        """All of it as plain JSON."""
        return {"format": FORMAT, "clock": None if self._clock is None else asdict(self._clock), "at_us": self._at_us,
                "last": asdict(self._last), "begin": asdict(self._begin), "total": self._total, "late": self._late,
                "pace": self._pace.dump()}  # fmt: skip

    @classmethod
    def load(cls, dumped: dict[str, Any]) -> ProgressPredictor:
        """What ``dump`` wrote; raises ValueError, KeyError or TypeError for anything else."""
        if dumped["format"] != FORMAT:
            raise ValueError(f"progress of format {dumped['format']!r} instead of {FORMAT}")
        clock = None if dumped["clock"] is None else _Clock(**dumped["clock"])
        return cls(clock, dumped["at_us"], _Report(**dumped["last"]), _Report(**dumped["begin"]), dumped["total"],
                   dumped["late"], PaceTracker.load(dumped["pace"]))  # fmt: skip

    # -- reports ---------------------------------------------------------------------------------------------------

    def _is_in_time(self, clock: _Clock, last_us: int, at_us: int, step: int) -> bool:
        """An older one than the last was overtaken on its way; unless it knows of more steps, or older ones keep
        coming: then the clock was set back."""
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
        """Count from here, whatever was before."""
        clock.move(at_us)
        self._at_us, self._late = at_us, 0
        self._last, self._begin = _Report(clock.work_us, step), _Report(clock.work_us, step)

    def _take(self, clock: _Clock, at_us: int, step: int, total: int | None) -> None:
        went_back, other_total = step < self._last.step, total != self._total
        self._total = total
        if went_back:
            if other_total:
                self._pace = PaceTracker()  # another count of other steps, not the same ones again
            else:
                self._pace.go_back(step)
            self._begin_at(clock, at_us, step)
            return
        if step == self._last.step:
            return
        clock.move(at_us)
        self._at_us, self._last = at_us, _Report(clock.work_us, step)
        took_us = clock.work_us - self._begin.work_us
        if took_us >= LEAST_GAP_US * clock.rate:
            self._pace.add(ReportInterval(step - self._begin.step, took_us, step), total)
            self._begin = _Report(clock.work_us, step)

    # -- the answer ------------------------------------------------------------------------------------------------

    def _own(self, clock: _Clock, total: int, now_us: int, started_us: int) -> tuple[tuple[float, ...], float] | None:
        """By the steps alone: the distribution by the clock, and how much stands behind it."""
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
        """One report, and for a while no other: of a run that tells only every epoch. All since its start went into
        these steps, if it began with the first."""
        took_us = (self._at_us or 0) - started_us
        if not 0 < self._last.step <= FIRST_RATIO * total or not 0 < took_us < FIRST_TIMES * waited_us:
            return None
        middle_us = took_us / self._last.step * left
        return spread(max(middle_us - min(waited_us, took_us), 0.5 * middle_us), GUESS, GUESS), 0.02

    def _left(self, left: int, total: int, waited_us: float, ran_us: float) -> tuple[float, float]:
        """Work time to come, and how far off that may be."""
        pace = self._pace
        ahead, pauses = pace.ahead(left, total), pace.pauses_ahead(self._last.step, total)
        tail_us = TAIL_S * US_PER_S + TAIL_RATIO * ran_us
        whole_us = ahead.us + pauses.us + tail_us
        expected_us = min(pace.typical_us(), ahead.us) if left else tail_us
        expected_us += pauses.one_us if pauses.is_due else 0.0
        overdue_us = max(waited_us - expected_us, 0.0)
        middle_us = max(whole_us - min(waited_us, expected_us), 0.0) + LONGER * overdue_us
        usual = (ahead.tries * ahead.error**2 + USUAL_TRIES * USUAL_ERROR**2) / (ahead.tries + USUAL_TRIES)
        error = hypot(sqrt(usual), self._youth())
        deviation_us = hypot(error * ahead.us, pauses.spread_us, tail_us, overdue_us)
        return max(middle_us, 0.1 * US_PER_S), deviation_us

    def _youth(self) -> float:
        seen_s = self._pace.seen_us() / US_PER_S
        return FEW * hypot(1 / self._pace.intervals, FEW_S / (FEW_S + seen_s))

    def _part(self, left: int) -> float:
        """Of the steps, how many were watched."""
        done = self._pace.seen_steps()
        return done / (done + left)

    def _confidence(self, left: int) -> float:
        part, count = self._part(left), self._pace.intervals
        return part / (part + UNSEEN_RATIO) * count / (count + 3)
