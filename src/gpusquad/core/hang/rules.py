"""The hang rules. Each looks at the evidence about one run and answers with a suspicion, or with nothing.

A suspicion is strong (``may_stop``) where the evidence fits nothing but a program that is stuck or loops. Where honest
work can look the same, it is weak and only warns: GPUs that work, a service, a terminal, a program that sleeps or waits
for another machine, and a processor that is busy without a word.
"""

from __future__ import annotations

from gpusquad.core.hang.hang import Evidence, HangRules, Suspicion
from gpusquad.model.units import US_PER_S, show_us

_FEW_LINES = 20
_MANY_LINES = 30
_FEW_LOSSES = 5
_LOOP_LINES_PER_S = 3.0
"""Rate of equal lines that no program prints to show that it is alive, or as a warning in each step of its work."""
_IDLE_LINES_PER_S = 0.15
"""The same for one whose CPU is idle. Slower, it may wait for a file or a service."""
_ROUNDS_PER_S = 0.3
"""Rate of lines with the same step. Slower, they may be parts of one long step."""
_CRASHES_PER_S = 0.05
"""Rate of equal lines about programs that ended, from which it is started again and again."""
_FEW_FALLS = 5
_QUICK_TIMES = 20
"""Steps that took at most a part of this size of the time at the same step show that it is stuck."""
_RECENT_US = 60 * US_PER_S
_ON_PURPOSE = ("service", "terminal")
"""Such runs wait for people or requests as long as they like."""
_FOR_OTHERS = ("network", "outside")
"""Such runs may wait for a person, another job or another machine."""


def judge(evidence: Evidence, rules: HangRules) -> list[Suspicion]:
    """All rules that match the run now."""
    found = (rule(evidence, rules) for rule in (_stopped, _spinning, _nan, _stuck, _repeats, _flood, _silent, _overrun))
    # A notice about several of them shows the first.
    return sorted((suspicion for suspicion in found if suspicion is not None), key=lambda one: not one.may_stop)


def _silent(evidence: Evidence, rules: HangRules) -> Suspicion | None:
    # A thread may redraw a bar, or print the same line, while all others wait.
    printed_us = evidence.last_output_us if evidence.new_output_us is None else evidence.new_output_us
    said_us = (printed_us, evidence.last_progress_us, evidence.watched_since_us)
    since_us = _latest(evidence, *said_us, evidence.last_activity_us, evidence.last_cpu_us, evidence.last_disk_us)
    if evidence.waits in _ON_PURPOSE:
        return None
    if not _reached(evidence.now_us - since_us, rules.silent_s):
        return _only_cpu(evidence, rules, _latest(evidence, *said_us, evidence.last_activity_us))
    repeats = printed_us is not None and (evidence.last_output_us or 0) > printed_us + _RECENT_US
    what = "nothing but repeated output" if repeats else "no sign of life"
    parts = (
        _ago("no new output", printed_us, evidence),
        _ago("no progress", evidence.last_progress_us, evidence),
        _ago("idle", _newer(evidence.last_activity_us, evidence.last_cpu_us), evidence),
    )
    message = f"{what} for {show_us(evidence.now_us - since_us)}: {', '.join(parts)}"
    is_stuck = evidence.waits in ("stuck", "stopped")
    if evidence.waits_detail:
        message += f"; {evidence.waits_detail}"
    cure = "check its logs; cancel it, or let it print or report progress"
    return Suspicion("silent", since_us, message, cure, may_stop=is_stuck, shown=evidence.stacks)


def _only_cpu(evidence: Evidence, rules: HangRules, since_us: int) -> Suspicion | None:
    """Its processors are busy and its GPUs are not. Preparation of data looks the same, so this takes longer."""
    quiet_us = evidence.now_us - since_us
    if not evidence.has_cards or evidence.last_cpu_us is None or not _reached(quiet_us, 3 * rules.silent_s):
        return None
    message = f"its GPUs have been idle for {show_us(quiet_us)}, without output or progress, while its CPUs are busy"
    cure = "check its logs; cancel it, or run such work as a job without GPUs"
    return Suspicion("silent", since_us, message, cure, may_stop=False, shown=evidence.stacks)


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
    unfed = evidence.unfed_since_us is not None and evidence.unfed_since_us <= since_us
    message = (
        f"GPUs{busy} busy{drawn} without output or progress for {show_us(evidence.now_us - since_us)}"
        + (", and nothing is sent to them" if unfed else "")
        + ": a kernel or a collective operation is likely hanging"
    )
    cure = "find in the logs which rank stopped first; cancel and resubmit"
    return Suspicion("spinning", since_us, message, cure, may_stop=unfed, shown=evidence.stacks)


def _stopped(evidence: Evidence, rules: HangRules) -> Suspicion | None:
    if evidence.stopped_us is None or not _reached(evidence.now_us - evidence.stopped_us, rules.stopped_s):
        return None
    message = (
        f"{evidence.stopped_detail} has been stopped by a signal for {show_us(evidence.now_us - evidence.stopped_us)}"
    )
    return Suspicion("stopped", evidence.stopped_us, message, "continue it with kill -CONT, or cancel the job")


def _nan(evidence: Evidence, rules: HangRules) -> Suspicion | None:
    if evidence.nan_us is None or evidence.nan_lines < _FEW_LOSSES:
        return None
    if not _reached(evidence.now_us - evidence.nan_us, rules.nan_s):
        return None
    lasts = show_us(evidence.now_us - evidence.nan_us)
    message = f"each of the last {evidence.nan_lines} losses that it printed, for {lasts}, is not a number"
    cure = "start again from a checkpoint before that, with a lower learning rate or clipped gradients"
    may_stop = not evidence.nan_doubtful  # trials that diverge, or a loss that comes later
    return Suspicion("nan", evidence.nan_us, message, cure, may_stop=may_stop, shown=evidence.sample)


def _stuck(evidence: Evidence, rules: HangRules) -> Suspicion | None:
    return _same_step(evidence, rules) or _goes_back(evidence, rules)


def _same_step(evidence: Evidence, rules: HangRules) -> Suspicion | None:
    if evidence.same_step_us is None or evidence.same_step < _MANY_LINES or evidence.waits in _ON_PURPOSE:
        return None
    since_us = _latest(evidence, evidence.same_step_us, evidence.last_reported_us, evidence.improved_us,
                       evidence.watched_since_us)  # fmt: skip
    quiet_us = evidence.now_us - since_us
    if not _reached(quiet_us, rules.repeats_s):
        return None
    # Another loss beside the same step is another round of the loop. An equal line may only say that it is alive.
    is_round = evidence.new_output_us is not None and evidence.new_output_us > since_us
    least_per_s = _ROUNDS_PER_S if is_round else _LOOP_LINES_PER_S
    is_loop = evidence.same_step >= least_per_s * quiet_us / US_PER_S and evidence.waits != "outside"
    if is_round:
        is_loop = is_loop and _was_quicker(evidence, rules, since_us)
    message = f"has printed the same step in {evidence.same_step} lines for {show_us(quiet_us)}"
    cure = "check what its loop counts; let it print the step that it is at"
    return Suspicion("stuck", since_us, message, cure, may_stop=is_loop, shown=evidence.sample)


def _was_quicker(evidence: Evidence, rules: HangRules, since_us: int) -> bool:
    """Whether other steps were much shorter. If there was none, whether it does nothing between its lines: a step may
    have hundreds of parts."""
    if evidence.longest_step_us is None:
        return _reached(_idle_us(evidence, since_us), rules.repeats_s / 2)
    return evidence.now_us - since_us >= _QUICK_TIMES * evidence.longest_step_us


def _goes_back(evidence: Evidence, rules: HangRules) -> Suspicion | None:
    """It does the same steps again and again, and fails in between or does not say why."""
    if evidence.ahead_us is None or evidence.falls < _FEW_FALLS or evidence.waits in _ON_PURPOSE:
        return None
    since_us = _latest(evidence, evidence.ahead_us, evidence.last_reported_us, evidence.improved_us,
                       evidence.watched_since_us)  # fmt: skip
    quiet_us = evidence.now_us - since_us
    if not _reached(quiet_us, rules.repeats_s):
        return None
    message = (
        f"has gone back to an earlier step {evidence.falls} times in {show_us(quiet_us)}, and never further than before"
    )
    cure = "check in its logs why it starts again"
    may_stop = evidence.restarts >= evidence.falls - 1 and evidence.waits != "outside"
    return Suspicion("stuck", since_us, message, cure, may_stop=may_stop, shown=evidence.sample)


def _repeats(evidence: Evidence, rules: HangRules) -> Suspicion | None:
    if evidence.waits in _ON_PURPOSE:
        return None  # a service that logs its health checks
    return _equal(evidence, rules) or _retries(evidence, rules) or _alike(evidence, rules)


def _equal(evidence: Evidence, rules: HangRules) -> Suspicion | None:
    since_us = _latest(evidence, evidence.new_output_us, evidence.last_progress_us, evidence.watched_since_us)
    quiet_us = evidence.now_us - since_us
    if evidence.repeated < _FEW_LINES or not _reached(quiet_us, rules.repeats_s):
        return None
    works_us = _newer(evidence.last_card_us, evidence.last_disk_us)
    works = works_us is not None and works_us > since_us
    if works:
        return None  # quiet training with a warning in each step
    per_s = evidence.repeated * US_PER_S / quiet_us
    is_busy = evidence.last_cpu_us is not None and evidence.last_cpu_us > evidence.now_us - _RECENT_US
    is_idle_loop = per_s >= _IDLE_LINES_PER_S and not evidence.succeeds  # a light program that says so of each item
    is_loop = _fails_again(evidence, quiet_us, per_s) if is_busy else is_idle_loop
    is_loop = is_loop and evidence.waits not in _FOR_OTHERS
    message = f"has printed the same lines again and again for {show_us(quiet_us)}, {evidence.repeated} or more of them"
    cure = "check what its loop waits for"
    return Suspicion("repeats", since_us, message, cure, may_stop=is_loop, shown=evidence.sample)


def _fails_again(evidence: Evidence, quiet_us: int, per_s: float) -> bool:
    """A busy program that prints the same line may do so for each item that it has done, unless it is about errors."""
    crashes_per_s = evidence.crashes * US_PER_S / quiet_us
    if crashes_per_s >= _CRASHES_PER_S and per_s >= _IDLE_LINES_PER_S:
        return True
    return per_s >= _LOOP_LINES_PER_S and 3 * evidence.troubles >= evidence.repeated


def _retries(evidence: Evidence, rules: HangRules) -> Suspicion | None:
    """The number of the attempt is all that changes, and nothing else happens."""
    since_us = _latest(evidence, evidence.retry_us, evidence.last_progress_us, evidence.watched_since_us)
    quiet_us = evidence.now_us - since_us
    if evidence.retry_us is None or evidence.retries < _FEW_LINES or not _reached(quiet_us, rules.repeats_s):
        return None
    if not _reached(_idle_us(evidence, since_us), rules.repeats_s):
        return None
    is_fast = evidence.retries >= _IDLE_LINES_PER_S * quiet_us / US_PER_S
    is_known = evidence.waits is not None and evidence.waits not in _FOR_OTHERS
    message = f"has done nothing but count its attempts for {show_us(quiet_us)}, in {evidence.retries} or more lines"
    cure = "check what its loop waits for"
    return Suspicion("repeats", since_us, message, cure, may_stop=is_fast and is_known, shown=evidence.sample)


def _alike(evidence: Evidence, rules: HangRules) -> Suspicion | None:
    """A number may say that something outside moves on, so this only warns."""
    since_us = _latest(evidence, evidence.alike_us, evidence.last_progress_us, evidence.watched_since_us)
    idle_us = _idle_us(evidence, since_us)
    if evidence.alike_us is None or evidence.alike < _FEW_LINES:
        return None
    if not _reached(idle_us, 3 * rules.repeats_s):
        return None
    message = f"has printed only lines that differ in numbers for {show_us(idle_us)}, while nothing works"
    return Suspicion("repeats", since_us, message, "check what it waits for", may_stop=False, shown=evidence.sample)


def _idle_us(evidence: Evidence, since_us: int) -> int:
    """Time without work on GPUs, CPUs or disks. The attempts themselves need a moment of a CPU each."""
    worked_us = (evidence.last_card_us, evidence.last_mean_cpu_us, evidence.last_disk_us)
    return evidence.now_us - _latest(evidence, since_us, *worked_us)


def _flood(evidence: Evidence, rules: HangRules) -> Suspicion | None:
    if evidence.flood_since_us is None or not _reached(evidence.now_us - evidence.flood_since_us, rules.flood_s):
        return None
    message = (
        f"has printed more than {rules.flood_bytes_s / 2**20:.3g} MiB/s for "
        f"{show_us(evidence.now_us - evidence.flood_since_us)}; only the newest output is kept"
    )
    cure = "lower its log level, or write data to a file"
    return Suspicion("flood", evidence.flood_since_us, message, cure, shown=evidence.sample)


def _overrun(evidence: Evidence, rules: HangRules) -> Suspicion | None:
    if evidence.high_us is None or rules.overrun_times <= 0:
        return None
    allowed_us = round(max(evidence.high_us * rules.overrun_times, rules.overrun_least_s * US_PER_S))
    ran_us = evidence.now_us - evidence.started_us
    if ran_us < allowed_us:
        return None
    message = f"has run for {show_us(ran_us)}; at most {show_us(evidence.high_us)} was predicted"
    is_endless = _is_endless(evidence, rules, ran_us)
    if evidence.is_prior and not is_endless:
        return None  # by what is known of other jobs, nobody is late
    if is_endless:
        message += ", and it shows neither new output nor progress nor work on GPUs"
    cure = "update its estimate if this is right; set a time limit if it should end"
    since_us = evidence.started_us + allowed_us
    return Suspicion("overrun", since_us, message, cure, may_stop=is_endless, shown=evidence.stacks)


def _is_endless(evidence: Evidence, rules: HangRules, ran_us: int) -> bool:
    """Nothing tells a silent loop from silent work, so only a run time far beyond everything expected does."""
    if rules.overrun_stop_times <= 0 or evidence.waits in (*_ON_PURPOSE, *_FOR_OTHERS, "disk"):
        return False
    most_us = max((evidence.high_us or 0) * rules.overrun_stop_times, rules.overrun_stop_least_s * US_PER_S)
    news_us = _latest(evidence, evidence.new_output_us, evidence.last_progress_us, evidence.last_card_us,
                      evidence.watched_since_us)  # fmt: skip
    return ran_us >= most_us and _reached(evidence.now_us - news_us, max(rules.silent_s, rules.overrun_least_s))


def _latest(evidence: Evidence, *times_us: int | None) -> int:
    return max([evidence.started_us, *(time_us for time_us in times_us if time_us is not None)])


def _newer(a_us: int | None, b_us: int | None) -> int | None:
    return max((time_us for time_us in (a_us, b_us) if time_us is not None), default=None)


def _reached(quiet_us: int, threshold_s: float) -> bool:
    return threshold_s > 0 and quiet_us >= threshold_s * US_PER_S


def _ago(what: str, last_us: int | None, evidence: Evidence) -> str:
    if last_us is None or last_us < evidence.started_us:
        return f"{what} since it started"
    return f"{what} for {show_us(evidence.now_us - last_us)}"
