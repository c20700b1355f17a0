"""Scheduling with predicted run times on three public logs, compared with published results on the same jobs.

The predictor learns while the log is replayed: for each job it knows only what was known at submission. The bars of
``predictive-fifo`` (queue in order of submission) are the better of two published schedulers whose waits are in the
same files. Those of ``predictive`` (order by predictions) are the best of about 5,770 combinations of predictor,
correction and scheduler that the authors of those files tried, the same combination for all their logs. Intervals are
95 %, from a bootstrap over weeks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench._logs import Floats, Log, most_jobs, other_logs, read_log
from bench._pages import draw, keep
from bench._play import Played, mode_facts, play, play_mode, side_by_side
from bench._weeks import Interval, mean_interval, ratio_interval
from bench.backfill import PROCESSORS
from bench.claims import claim
from gpusquad.core.state.policies import make_policies
from gpusquad.sim.simulator import exact, user

NAME = "predictive"
SUMMARY = "scheduling by predicted run times on three SP2 logs, beside published schedulers"
SLOW = True

FIFO, FREE = "predictive-fifo", "predictive"
BEST_TRIPLE = {"KTH-SP2": 51.4, "SDSC-SP2": 75.0, "CTC-SP2": 20.5}
"""Mean slowdown of EASY++ with Tsafrir's correction and a linear predictor with an asymmetric loss: the best of those
that were the same for all logs in the artefact of Gaussier et al., SC '15."""
PUBLISHED = ("easypp_tsafrir", "easypp_ml")
WAIT_BAR = 1.2
"""Times the longest wait of plain EASY."""
RUNS = ("easy user", f"{FIFO} exact", f"{FREE} exact", f"{FIFO} online", f"{FREE} online")

Figures = dict[str, Any]


def run() -> list[dict]:
    others = other_logs()
    logs = [*sorted(PROCESSORS, key=lambda name: -PROCESSORS[name]), *others]  # the longest first: no core is left idle
    played = side_by_side(play_one, [(log, kind) for log in logs for kind in RUNS])
    claims, kept = [], {}
    for name in (*PROCESSORS, *others):
        log, runs = read_log(name), {kind: played[name, kind] for kind in RUNS}
        claims += judged(log, runs) if log.wait_s else told(log, runs)
        kept[name] = {kind: figures(one) for kind, one in runs.items()}
        kept[name]["by week"] = {kind: _by_week(one) for kind, one in runs.items()}
    keep(NAME, {"modes": mode_facts(FIFO, FREE), "logs": kept})
    draw(NAME, "Mean bounded slowdown of the jobs of each week", [_panel(name, kept[name]["by week"]) for name in kept])
    return claims


def play_one(task: tuple[str, str]) -> Played:
    """Name of a log, and a scheduler with its source of run times."""
    log, (scheduler, knows) = read_log(task[0]), task[1].split()
    if scheduler == "easy":
        return play(log.cluster, log.jobs, make_policies("fifo", "easy", "binpack"), user)
    return play_mode(log, scheduler, exact if knows == "exact" else None)


def judged(log: Log, runs: dict[str, Played]) -> list[dict]:
    """A log with references."""
    best = min(PUBLISHED, key=lambda name: log.slowdown(name).mean())
    bars = {FIFO: float(log.slowdown(best).mean()), FREE: None if most_jobs() else BEST_TRIPLE[log.name]}
    claims = []
    for mode in (FIFO, FREE):
        one, label = runs[f"{mode} online"], f"{log.name} {mode}"
        sure = mean_interval(one.submitted_s, one.slowdown)
        claims.append(claim(f"{label}: mean slowdown {_shown(sure)}", one.mean_slowdown, "", "lower", bar=bars[mode],
                            baseline=float(log.slowdown("easy").mean())))  # fmt: skip
        easy_h = float(log.wait_s["easy"].max()) / 3600
        claims.append(claim(f"{label}: longest wait", one.max_wait_h, "h", "lower", bar=WAIT_BAR * easy_h,
                            baseline=easy_h))  # fmt: skip
        for other in ("easy", best, "easypp_clairvoyant"):
            claims.append(_ratio(f"{label}: slowdown / {other}", one, log.slowdown(other)))
        claims.append(_ratio(f"{label}: slowdown / its own with exact run times", one, runs[f"{mode} exact"].slowdown))
        claims += delays(label, one, runs["easy user"])
    return claims


def told(log: Log, runs: dict[str, Played]) -> list[dict]:
    """Claims on a user's own log, without bars."""
    easy, claims = runs["easy user"], []
    for mode in (FIFO, FREE):
        one, label = runs[f"{mode} online"], f"{log.name} {mode}"
        sure = mean_interval(one.submitted_s, one.slowdown)
        claims += [
            claim(f"{label}: mean slowdown {_shown(sure)}", one.mean_slowdown, "", "lower",
                  baseline=easy.mean_slowdown),
            _ratio(f"{label}: slowdown / easy", one, easy.slowdown),
            _ratio(f"{label}: slowdown / its own with exact run times", one, runs[f"{mode} exact"].slowdown),
            claim(f"{label}: longest wait", one.max_wait_h, "h", "lower", baseline=easy.max_wait_h),
            *delays(label, one, easy),
        ]  # fmt: skip
    return claims


def delays(label: str, one: Played, easy: Played) -> list[dict]:
    """Delay of the head of the queue, compared with plain EASY with user estimates."""
    claims = []
    for what, ours, theirs in (("than promised", one.late_h, easy.late_h),
                               ("than had nobody slipped in", one.passed_h, easy.passed_h)):  # fmt: skip
        for how, of in (("mean", mean), ("p99", p99)):
            claims.append(claim(f"{label}: first in line starts later {what}, {how}", of(ours), "h", "lower",
                                baseline=of(theirs)))  # fmt: skip
    return claims


def figures(one: Played) -> Figures:
    """One run in numbers."""
    return {
        "mean slowdown": one.mean_slowdown, "slowdown 95 %": mean_interval(one.submitted_s, one.slowdown),
        "longest wait h": one.max_wait_h, "late mean h": mean(one.late_h), "late p99 h": p99(one.late_h),
        "passed mean h": mean(one.passed_h), "passed p99 h": p99(one.passed_h), "were first": len(one.passed_h),
    }  # fmt: skip


def mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def p99(values: Floats) -> float:
    return float(np.percentile(values, 99)) if len(values) else 0.0


def _ratio(name: str, one: Played, others: Floats) -> dict:
    sure = ratio_interval(one.submitted_s, one.slowdown, others)
    return claim(f"{name} {_shown(sure)}", one.mean_slowdown / float(others.mean()), "", "lower")


def _shown(interval: Interval) -> str:
    return f"({interval[0]:.3g} to {interval[1]:.3g})"


def _by_week(one: Played) -> list[float]:
    week = ((one.submitted_s - one.submitted_s.min()) // (7 * 24 * 3600)).astype(np.int64)
    counts = np.bincount(week)
    return [float(total / max(count, 1)) for total, count in zip(np.bincount(week, one.slowdown), counts, strict=True)]


def _panel(name: str, by_week: dict[str, list[float]]) -> dict[str, Any]:
    lines = {kind: list(enumerate(values)) for kind, values in by_week.items()}
    return {"title": name, "x": "week", "y": "mean slowdown", "lines": lines}
