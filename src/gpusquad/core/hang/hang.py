"""Hang detection: the evidence about a run, and what follows from a suspicion: a warning, then a stop.

Pure functions: the caller passes the time and the evidence. ``rules`` turns evidence into suspicions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from gpusquad.model.units import US_PER_S

WEAK_MOMENT_US = 60 * US_PER_S
"""A strong suspicion that is weak for less than this keeps its time."""
RuleName = Literal["silent", "spinning", "stopped", "nan", "stuck", "repeats", "flood", "overrun"]


@dataclass(frozen=True, slots=True)
class HangRules:
    """Thresholds. A time of 0 or less disables a rule."""

    silent_s: float = 600.0
    """Time without output, progress and work on GPU and CPU."""
    spinning_s: float = 600.0
    """Time with busy GPUs that draw little power, without output or progress: a kernel or collective that hangs."""
    spinning_utilisation_ratio: float = 0.95
    spinning_power_ratio: float = 0.25
    """Little power: at most this fraction of the range from idle power to the limit."""
    idle_power_most_ratio: float = 0.25
    """Upper bound of the idle power as a fraction of the limit. The lowest power seen is too high if the card was
    always busy."""
    stopped_s: float = 600.0
    """Time with a process that was stopped by a signal."""
    nan_s: float = 600.0
    """Time in which every loss that is printed is not a number."""
    repeats_s: float = 600.0
    """Time in which it prints nothing but lines that it has printed before, or the same step."""
    flood_s: float = 600.0
    """Time with more output than ``flood_bytes_s``."""
    flood_bytes_s: float = 2.0**20
    active_ratio: float = 0.01
    """Utilisation from which a GPU counts as active."""
    active_cores: float = 0.05
    """Cores from which the CPU counts as active. Libraries wake up a little while they wait."""
    overrun_times: float = 3.0
    """Run time over the predicted high quantile: a warning."""
    overrun_least_s: float = 600.0
    overrun_stop_times: float = 10.0
    """The same, for the stop of a run that shows no new output, progress or work on GPUs."""
    overrun_stop_least_s: float = 6 * 3600.0
    stop_after_s: float = 240.0
    """Time from the warning to the stop."""

    @property
    def look_after_s(self) -> float:
        """Time without anything new after which the agent looks closer at a run: well before a rule needs it."""
        times_s = (self.silent_s, self.repeats_s, self.spinning_s, self.stopped_s)
        return min([60.0, *(max(time_s / 10, 0.2) for time_s in times_s if time_s > 0)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Facts about one run. None: never or unknown."""

    now_us: int
    """Time of the last sample, not of the caller's clock: without samples no suspicion grows."""
    started_us: int
    has_cards: bool = True
    watched_since_us: int | None = None
    """Start of the observation. Silence before it is unknown."""
    last_output_us: int | None = None
    new_output_us: int | None = None
    """Last line that it had not printed before, apart from times in it."""
    repeated: int = 0
    """Lines since then."""
    troubles: int = 0
    """Of these, those about errors or waiting. Zero if one of them says that something was done."""
    crashes: int = 0
    """Of these, those about a program that ended."""
    succeeds: bool = False
    """Whether one of them only says that something was done."""
    retry_us: int | None = None
    """The same, if a line that only counts its attempts is not new."""
    retries: int = 0
    alike_us: int | None = None
    """The same, if no number makes a line new unless it is progress or a loss."""
    alike: int = 0
    last_progress_us: int | None = None
    last_reported_us: int | None = None
    """Last progress that it reported by itself, not by its output."""
    same_step_us: int | None = None
    same_step: int = 0
    """Lines with the same step since then, in which only fractions differ."""
    longest_step_us: int | None = None
    """Longest step that ended. None: none did."""
    improved_us: int | None = None
    """Last loss that was clearly less than all before it at the same step."""
    ahead_us: int | None = None
    """Last line with a step, or anything else but fractions, that it had not printed before."""
    falls: int = 0
    """Times since then that its steps went back, without having reached their end."""
    restarts: int = 0
    """Lines about errors and restarts since then."""
    nan_us: int | None = None
    nan_lines: int = 0
    nan_doubtful: bool = False
    """Whether its losses were never numbers, while another value changes."""
    last_activity_us: int | None = None
    """Work on its GPUs, or on CPUs if it has none."""
    last_card_us: int | None = None
    """Work on real GPUs. On simulated cards the CPU stands for it, and shows nothing."""
    last_cpu_us: int | None = None
    last_mean_cpu_us: int | None = None
    """Last work on CPUs that is more than a moment now and then, or unknown."""
    last_disk_us: int | None = None
    """Data written to or read from a disk."""
    spinning_since_us: int | None = None
    unfed_since_us: int | None = None
    """Since when the spinning GPUs receive nothing: no kernel is launched."""
    utilisation_ratio: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    flood_since_us: int | None = None
    stopped_us: int | None = None
    stopped_detail: str = ""
    waits: str | None = None
    """What its processes wait for (the agent's ``WaitKind``); None: not looked at."""
    waits_detail: str = ""
    sample: tuple[str, ...] = ()
    """Last distinct lines of its output."""
    stacks: tuple[str, ...] = ()
    high_us: int | None = None
    """Predicted run time, high quantile."""
    is_prior: bool = False
    """Whether that is known of jobs in general only, and nothing of this one."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A rule that matches a run."""

    rule: RuleName
    since_us: int
    """Last sign of life, or start of the overrun."""
    message: str
    cure: str
    may_stop: bool = True
    shown: tuple[str, ...] = ()
    """Lines that show it: output or stacks. They may be private."""


@dataclass(frozen=True, slots=True)
class HangAction:
    """What to do about a suspicion: warn, stop the run, or report that it is resolved."""

    kind: Literal["warn", "stop", "clear"]
    rule: RuleName
    since_us: int
    message: str
    cure: str = ""
    shown: tuple[str, ...] = ()
    may_stop: bool = False


@dataclass(frozen=True, slots=True)
class HangWarning:
    """A suspicion that the run was warned about, as it is now."""

    rule: RuleName
    at_us: int
    """Time of the warning."""
    since_us: int
    message: str
    cure: str
    may_stop: bool
    strong_us: int | None = None
    """When it became strong, if it is, or was until a moment ago."""
    weak_us: int | None = None
    """Since when it is only weak."""

    def stops_us(self, rules: HangRules) -> int | None:
        """When the run is stopped if the suspicion stays. None: never."""
        return self.at_us + round(rules.stop_after_s * US_PER_S) if self.may_stop else None


@dataclass(frozen=True, slots=True)
class HangWatch:
    """Actions taken for one run so far. Immutable: every step gives a new value."""

    warned: Mapping[RuleName, HangWarning] = field(default_factory=dict)
    stopped: bool = False

    def step(
        self, now_us: int, suspicions: Sequence[Suspicion], rules: HangRules, *, stop: bool
    ) -> tuple[HangWatch, tuple[HangAction, ...]]:
        """Warn once per rule, again when it becomes strong; stop once (if ``stop`` allows it); clear resolved ones."""
        current: dict[RuleName, Suspicion] = {suspicion.rule: suspicion for suspicion in suspicions}
        over: list[RuleName] = [rule for rule in self.warned if rule not in current or self._is_new(current[rule])]
        notices = [_cleared(rule, now_us) for rule in over if rule not in current]
        warned: dict[RuleName, HangWarning] = {rule: past for rule, past in self.warned.items() if rule not in over}
        for suspicion in suspicions:
            before = warned.get(suspicion.rule)
            warned[suspicion.rule] = now = _follow(before, suspicion, now_us)
            if before is None or (suspicion.may_stop and before.strong_us is None):
                notices.append(_notice("warn", suspicion))
            elif before.strong_us is not None and now.strong_us is None:
                notices.append(_withdrawn(suspicion, now_us))
        due_us = now_us - rules.stop_after_s * US_PER_S
        due = [suspicion for suspicion in suspicions if suspicion.may_stop and warned[suspicion.rule].at_us <= due_us]
        stops = stop and not self.stopped and bool(due)
        if stops:
            notices.append(_notice("stop", due[0]))
        return HangWatch(warned, self.stopped or stops), tuple(notices)

    def _is_new(self, suspicion: Suspicion) -> bool:
        """Whether there was a sign of life after the warning, between two evaluations."""
        return suspicion.rule != "overrun" and suspicion.since_us > self.warned[suspicion.rule].at_us


def _follow(before: HangWarning | None, suspicion: Suspicion, now_us: int) -> HangWarning:
    """What is strong, weak for a moment and strong again was strong all the time. Else it would never be stopped."""
    if suspicion.may_stop:
        strong_us = now_us if before is None or before.strong_us is None else before.strong_us
        at_us, weak_us = strong_us, None
    else:
        at_us = now_us if before is None else before.at_us
        weak_us = now_us if before is None or before.weak_us is None else before.weak_us
        lasts = before is not None and now_us - weak_us < WEAK_MOMENT_US
        strong_us = before.strong_us if before is not None and lasts else None
    return HangWarning(suspicion.rule, at_us, suspicion.since_us, suspicion.message, suspicion.cure,
                       suspicion.may_stop, strong_us, weak_us)  # fmt: skip


def _notice(kind: Literal["warn", "stop"], suspicion: Suspicion) -> HangAction:
    return HangAction(kind, suspicion.rule, suspicion.since_us, suspicion.message, suspicion.cure, suspicion.shown,
                      suspicion.may_stop)  # fmt: skip


def _cleared(rule: RuleName, now_us: int) -> HangAction:
    return HangAction("clear", rule, now_us, f"no longer {rule}")


def _withdrawn(suspicion: Suspicion, now_us: int) -> HangAction:
    message = f"it is not stopped for {suspicion.rule}: the evidence became weak; {suspicion.message}"
    return HangAction("clear", suspicion.rule, now_us, message)
