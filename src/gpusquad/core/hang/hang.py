"""Hang detection: when a run is likely hanging, and what follows: a warning, then a stop if the tenant's rule allows
it.

Pure functions: the caller passes the time and the evidence. An estimate never stops a run, so ``overrun`` only warns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gpusquad.model.units import US_PER_S, show_us

RuleName = Literal["silent", "spinning", "overrun"]


@dataclass(frozen=True, slots=True)
class HangRules:
    """Thresholds. A time of 0 or less disables a rule."""

    silent_s: float = 1800.0
    """Time without output, progress and GPU activity."""
    spinning_s: float = 1200.0
    """Time with busy GPUs that draw little power, without output or progress: a hanging collective."""
    spinning_utilisation_ratio: float = 0.95
    spinning_power_ratio: float = 0.25
    """Little power: at most this fraction of the range from idle power to the limit."""
    idle_power_most_ratio: float = 0.25
    """Upper bound of the idle power as a fraction of the limit. The lowest power seen is too high if the card was
    always busy."""
    active_ratio: float = 0.01
    """Utilisation from which a GPU, or the CPU of a run without GPUs, counts as active."""
    overrun_times: float = 3.0
    """Run time over the predicted high quantile."""
    overrun_least_s: float = 600.0
    stop_after_s: float = 600.0
    """Time from the warning to the stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Facts about one run. None: never or unknown."""

    now_us: int
    """Time of the last sample, not of the caller's clock: without samples no suspicion grows."""
    started_us: int
    watched_since_us: int | None = None
    """Start of the observation. Silence before it is unknown."""
    last_output_us: int | None = None
    last_progress_us: int | None = None
    last_activity_us: int | None = None
    spinning_since_us: int | None = None
    utilisation_ratio: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    high_us: int | None = None
    """Predicted run time, high quantile."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A rule that matches a run."""

    rule: RuleName
    since_us: int
    """Last sign of life, or start of the overrun."""
    message: str
    cure: str
    may_stop: bool = True


@dataclass(frozen=True, slots=True)
class HangAction:
    """What to do about a suspicion: warn, stop the run, or report that it is resolved."""

    kind: Literal["warn", "stop", "clear"]
    rule: RuleName
    since_us: int
    message: str
    cure: str = ""


def judge(evidence: Evidence, rules: HangRules) -> list[Suspicion]:
    """All rules that match the run now."""
    found = (_silent(evidence, rules), _spinning(evidence, rules), _overrun(evidence, rules))
    return [suspicion for suspicion in found if suspicion is not None]


@dataclass(frozen=True, slots=True)
class HangWatch:
    """Actions taken for one run so far. Immutable: every step gives a new value."""

    warned: Mapping[RuleName, int] = field(default_factory=dict)
    """Rule -> time of the warning."""
    stopped: bool = False

    def step(
        self, now_us: int, suspicions: Sequence[Suspicion], rules: HangRules, *, stop: bool
    ) -> tuple[HangWatch, tuple[HangAction, ...]]:
        """Warn once per rule, stop once (if ``stop`` allows it), clear resolved warnings."""
        current: dict[RuleName, Suspicion] = {suspicion.rule: suspicion for suspicion in suspicions}
        over: list[RuleName] = [rule for rule in self.warned if rule not in current or self._is_new(current[rule])]
        notices = [_cleared(rule, now_us) for rule in over if rule not in current]
        warned: dict[RuleName, int] = {rule: at_us for rule, at_us in self.warned.items() if rule not in over}
        for suspicion in suspicions:
            if suspicion.rule not in warned:
                warned[suspicion.rule] = now_us
                notices.append(_notice("warn", suspicion))
        due_us = now_us - rules.stop_after_s * US_PER_S
        due = [suspicion for suspicion in suspicions if suspicion.may_stop and warned[suspicion.rule] <= due_us]
        stops = stop and not self.stopped and bool(due)
        if stops:
            notices.append(_notice("stop", due[0]))
        return HangWatch(warned, self.stopped or stops), tuple(notices)

    def _is_new(self, suspicion: Suspicion) -> bool:
        """Whether there was a sign of life after the warning, between two evaluations."""
        return suspicion.may_stop and suspicion.since_us > self.warned[suspicion.rule]


def crash_backoff_s(
    attempts: int, last_run_s: float, *, fast_s: float = 60.0, first_s: float = 10.0, most_s: float = 900.0
) -> float:
    """Delay before the next attempt of a job that crashed ``attempts`` times in a row. 0 if it ran for ``fast_s``."""
    if attempts <= 0 or last_run_s >= fast_s:
        return 0.0
    return min(first_s * 2.0 ** min(attempts - 1, 64), most_s)


# -- the rules ---------------------------------------------------------------------------------------------------------


def _silent(evidence: Evidence, rules: HangRules) -> Suspicion | None:
    signs_us = (evidence.last_output_us, evidence.last_progress_us, evidence.last_activity_us)
    since_us = _latest(evidence, *signs_us, evidence.watched_since_us)
    if not _reached(evidence.now_us - since_us, rules.silent_s):
        return None
    parts = (
        _ago("no output", evidence.last_output_us, evidence),
        _ago("no progress", evidence.last_progress_us, evidence),
        _ago("idle", evidence.last_activity_us, evidence),
    )
    message = f"no sign of life for {show_us(evidence.now_us - since_us)}: {', '.join(parts)}"
    return Suspicion("silent", since_us, message, "check its logs; cancel it, or let it print or report progress")


def _spinning(evidence: Evidence, rules: HangRules) -> Suspicion | None:
    if evidence.spinning_since_us is None:
        return None
    since_us = _latest(evidence, evidence.last_output_us, evidence.last_progress_us, evidence.spinning_since_us)
    if not _reached(evidence.now_us - since_us, rules.spinning_s):
        return None
    busy = "" if evidence.utilisation_ratio is None else f" {evidence.utilisation_ratio:.0%}"
    drawn = ""
    if evidence.power_w is not None and evidence.power_limit_w is not None:
        drawn = f" at {evidence.power_w:.0f} W of {evidence.power_limit_w:.0f} W"
    message = (
        f"GPUs{busy} busy{drawn} without output or progress for {show_us(evidence.now_us - since_us)}: "
        "a collective operation is likely hanging"
    )
    return Suspicion("spinning", since_us, message, "find in the logs which rank stopped first; cancel and resubmit")


def _overrun(evidence: Evidence, rules: HangRules) -> Suspicion | None:
    if evidence.high_us is None or rules.overrun_times <= 0:
        return None
    allowed_us = round(max(evidence.high_us * rules.overrun_times, rules.overrun_least_s * US_PER_S))
    ran_us = evidence.now_us - evidence.started_us
    if ran_us < allowed_us:
        return None
    message = f"has run for {show_us(ran_us)}; at most {show_us(evidence.high_us)} was predicted"
    cure = "update its estimate if this is right; set a time limit if it should end"
    return Suspicion("overrun", evidence.started_us + allowed_us, message, cure, may_stop=False)


def _latest(evidence: Evidence, *times_us: int | None) -> int:
    return max([evidence.started_us, *(time_us for time_us in times_us if time_us is not None)])


def _reached(quiet_us: int, threshold_s: float) -> bool:
    return threshold_s > 0 and quiet_us >= threshold_s * US_PER_S


def _ago(what: str, last_us: int | None, evidence: Evidence) -> str:
    if last_us is None or last_us < evidence.started_us:
        return f"{what} since it started"
    return f"{what} for {show_us(evidence.now_us - last_us)}"


def _notice(kind: Literal["warn", "stop"], suspicion: Suspicion) -> HangAction:
    return HangAction(kind, suspicion.rule, suspicion.since_us, suspicion.message, suspicion.cure)


def _cleared(rule: RuleName, now_us: int) -> HangAction:
    return HangAction("clear", rule, now_us, f"no longer {rule}")
