"""Compares two series of the same card and way of sharing: differences beyond the variation of repeats."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gpusquad.measure.analysis.stats import Difference, MeanEstimate, corrected, difference, spread, spread_of_interval
from gpusquad.measure.analysis.summary_text import p_text
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import ConfidenceInterval, CoRun, MeasurementSeries, MeasurementSetting
from gpusquad.model.units import WHOLE_MILLI, show_count

Key = tuple[tuple[str, int], ...]
"""A run: its workloads and the SMs of each, in a fixed order. A single entry if it ran alone."""


@dataclass(frozen=True, slots=True)
class SpeedChange:
    """The speed of one workload in the old and the new series. Alone: steps per second relative to the old; else
    relative to its speed alone.
    """

    own: str
    run: Key
    old: float
    new: float
    by: Difference
    """New minus old."""

    @property
    def is_alone(self) -> bool:
        return len(self.run) == 1


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two series have in common, and how it changed."""

    old: MeasurementSetting
    new: MeasurementSetting
    tested: tuple[SpeedChange, ...] = ()
    fit_now: tuple[Key, ...] = ()
    """Ran out of memory in the old series."""
    fit_no_more: tuple[Key, ...] = ()
    only_old: tuple[Key, ...] = ()
    only_new: tuple[Key, ...] = ()
    untested: int = 0
    """Measured only once, so the variation of repeats is unknown."""

    @property
    def changes(self) -> list[SpeedChange]:
        """The significant changes, largest first."""
        changed = [change for change in self.tested if change.by.is_significant]
        return sorted(changed, key=lambda change: -abs(change.by.mean))


def are_comparable(old: MeasurementSetting, new: MeasurementSetting) -> bool:
    """The driver is left out: a new driver is a reason to compare."""
    return (old.gpu, old.sharing, old.memory_bytes) == (new.gpu, new.sharing, new.memory_bytes)


def compare(old: MeasurementSeries, new: MeasurementSeries) -> Comparison:
    """Raises Invalid if cards, ways of sharing or memory limits differ."""
    if not are_comparable(old.setting, new.setting):
        raise Invalid(
            "compare", _why_not(old.setting, new.setting), "compare series of one card and one way of sharing"
        )
    before, after = _runs(old), _runs(new)
    both = [key for key in before if key in after]
    pairs = [(key, name, *speeds) for key in both for name, *speeds in _both_speeds(before[key], after[key], key)]
    pairs += _alone(old, new)
    known = [(key, name, a, b) for key, name, a, b in pairs if a is not None and b is not None]
    by = corrected([difference(b, a) for _, _, a, b in known])
    tested = [SpeedChange(name, key, a.mean, b.mean, one) for (key, name, a, b), one in zip(known, by, strict=True)]
    return Comparison(
        old.setting, new.setting, tuple(tested),
        fit_now=tuple(key for key in both if after[key].fits and not before[key].fits),
        fit_no_more=tuple(key for key in both if before[key].fits and not after[key].fits),
        only_old=tuple(key for key in before if key not in after),
        only_new=tuple(key for key in after if key not in before),
        untested=len(pairs) - len(known),
    )  # fmt: skip


def describe(found: Comparison) -> list[str]:
    """The findings, one line each."""
    lines = []
    if found.old.driver != found.new.driver:
        lines.append(f"driver {found.old.driver} before, {found.new.driver} now")
    lines += [_change_text(change) for change in found.changes]
    lines += [f"{run_text(key)}: fit in memory now" for key in found.fit_now]
    lines += [f"{run_text(key)}: no longer fit in memory" for key in found.fit_no_more]
    same = len(found.tested) - len(found.changes)
    if found.tested:
        lines.append(f"{same} of {len(found.tested)} speeds are unchanged within their intervals")
    if found.untested:
        were = "was" if found.untested == 1 else "were"
        lines.append(f"{show_count(found.untested, 'speed')} {were} measured only once and cannot be compared")
    if found.only_old or found.only_new:
        lines.append(f"measured only before: {show_count(len(found.only_old), 'run')}; only now: {len(found.only_new)}")
    return lines or ["the series have nothing in common"]


def as_plain(found: Comparison) -> dict[str, Any]:
    """For JSON."""
    return {
        "old": asdict(found.old), "new": asdict(found.new),
        "changes": [_plain_change(change) for change in found.changes],
        "tested": len(found.tested), "untested": found.untested,
        "fit_now": [_plain_run(key) for key in found.fit_now],
        "fit_no_more": [_plain_run(key) for key in found.fit_no_more],
        "only_old": [_plain_run(key) for key in found.only_old],
        "only_new": [_plain_run(key) for key in found.only_new],
        "words": describe(found),
    }  # fmt: skip


def run_text(key: Key) -> str:
    """``cnn beside stream``, with their fractions of the SMs if they were restricted."""
    return " beside ".join(name + ("" if milli == WHOLE_MILLI else f" ({milli / 10:g} %)") for name, milli in key)


def _runs(measured: MeasurementSeries) -> dict[Key, CoRun]:
    found: dict[Key, CoRun] = {}
    for run in measured.co_runs:
        found.setdefault(_key(run), run)
    return found


def _key(run: CoRun) -> Key:
    return tuple(sorted(zip(run.workloads, run.sm_milli, strict=True)))


def _both_speeds(old: CoRun, new: CoRun, key: Key) -> list[tuple[str, MeanEstimate | None, MeanEstimate | None]]:
    """The speeds of each workload of a run. Two copies of a workload give one speed."""
    if not (old.fits and new.fits):
        return []
    return [(name, _speed(old, name, milli), _speed(new, name, milli)) for name, milli in dict.fromkeys(key)]


def _speed(run: CoRun, name: str, milli: int) -> MeanEstimate | None:
    """Two copies with equal SMs are equivalent: the mean of both, repeat by repeat."""
    places = [place for place, one in enumerate(zip(run.workloads, run.sm_milli, strict=True)) if one == (name, milli)]
    if run.samples and min(len(run.samples[place]) for place in places) >= 2:
        by_repeat = zip(*(run.samples[place] for place in places), strict=False)
        return spread([sum(ratios) / len(ratios) for ratios in by_repeat])
    return spread_of_interval(run.ratios[places[0]])


def _alone(
    old: MeasurementSeries, new: MeasurementSeries
) -> list[tuple[Key, str, MeanEstimate | None, MeanEstimate | None]]:
    """Steps per second relative to the mean of the old series, so that they compare with ratios."""
    found = []
    for solo in old.solos:
        again, unit = new.solo(solo.workload), solo.steps_per_s.mean
        if again is not None and unit > 0:
            speeds = [spread_of_interval(_over(one.steps_per_s, unit)) for one in (solo, again)]
            found.append((((solo.workload, WHOLE_MILLI),), solo.workload, *speeds))
    return found


def _over(interval: ConfidenceInterval, unit: float) -> ConfidenceInterval:
    return ConfidenceInterval(interval.mean / unit, interval.low / unit, interval.high / unit, interval.repeats)


def _why_not(old: MeasurementSetting, new: MeasurementSetting) -> str:
    parts = (("gpu", old.gpu, new.gpu), ("sharing", old.sharing, new.sharing),
             ("memory limit", _limit(old), _limit(new)))  # fmt: skip
    differences = [f"{what} is {a} in one and {b} in the other" for what, a, b in parts if a != b]
    return "the settings differ: " + ", ".join(differences)


def _limit(setting: MeasurementSetting) -> str:
    return "none" if setting.memory_bytes is None else f"{setting.memory_bytes / 1e9:g} GB"


def _change_text(change: SpeedChange) -> str:
    more_or_less = "faster" if change.by.mean > 0 else "slower"
    sure = f"{_percents(change.by.low)} to {_percents(change.by.high)} points, {p_text(change.by.adjusted_p)}"
    if change.is_alone:
        return f"{change.own} alone: {abs(change.by.mean) / change.old:.1%} {more_or_less} than before ({sure})"
    where = f"{change.own} in {run_text(change.run)}"
    return f"{where}: {change.old:.2f} of its speed alone before, {change.new:.2f} now ({more_or_less}; {sure})"


def _percents(ratio: float) -> str:
    return f"{100 * ratio:+.1f}"


def _plain_change(change: SpeedChange) -> dict[str, Any]:
    return {
        "workload": change.own, "run": _plain_run(change.run), "alone": change.is_alone,
        "old_ratio": change.old, "new_ratio": change.new, "difference": change.by.mean,
        "low": change.by.low, "high": change.by.high, "p": change.by.p, "adjusted_p": change.by.adjusted_p,
    }  # fmt: skip


def _plain_run(key: Key) -> dict[str, list]:
    return {"workloads": [name for name, _ in key], "sm_milli": [milli for _, milli in key]}
