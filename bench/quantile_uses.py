"""Which quantile is best for which purpose: slowdown against the delay of the head of the queue.

Varies the settings of the mode: the quantile at which cards are expected to become free (shadow) and the expected run
time of a backfill candidate, with and without a limited patience; then the quantile of reservations, and the one used
when patience has ended. ``GPUSQUAD_MODE`` selects another mode than ``predictive-fifo``.
"""

from __future__ import annotations

import os
from dataclasses import replace
from math import inf

from bench._logs import read_log
from bench._pages import draw, keep
from bench._play import Played, mode_facts, play, side_by_side
from bench.claims import claim
from bench.predictive import FIFO, figures, mean, p99, play_one
from gpusquad.model.prediction import QuantileLevels
from gpusquad.modes import load_mode
from gpusquad.sim.predictor_feed import PredictorFeed

NAME = "quantile-uses"
SUMMARY = "which quantile to use for shadow times, backfill candidates and reservations, on two SP2 logs"
SLOW = True

LOGS = ("SDSC-SP2", "KTH-SP2")
PAIRS = ((0.3, 0.3), (0.45, 0.45), (0.5, 0.5), (0.5, 0.7), (0.5, 0.9), (0.7, 0.7), (0.9, 0.9))
"""Shadow and candidate."""
RESERVATIONS = (0.5, 0.9, 0.99)
CAREFUL = (0.8, 0.9, 0.99)

Setting = tuple[float, float, float, float, bool]
"""Shadow, candidate, reservation, careful, and whether patience ends."""
Task = tuple[str, Setting]


def run() -> list[dict]:
    chosen = settings(load_mode(mode_name()).uses)
    played = side_by_side(play_uses, [(log, setting) for log in LOGS for setting in chosen])
    easy = side_by_side(play_one, [(log, "easy user") for log in LOGS])
    kept = [{"log": log, **_named(setting), **figures(one)} for (log, setting), one in played.items()]
    kept += [{"log": log, "easy": True, **figures(one)} for (log, _), one in easy.items()]
    keep(NAME, {"modes": mode_facts(mode_name()), "runs": kept})
    draw(NAME, f"Which quantile where ({mode_name()})", [_panel(log, played, easy[log, "easy user"]) for log in LOGS])
    return [one for task in played for one in claims(task, played[task], easy[task[0], "easy user"])]


def mode_name() -> str:
    return os.environ.get("GPUSQUAD_MODE", FIFO)


def settings(mode: QuantileLevels) -> list[Setting]:
    """One thing changed at a time, each once."""
    usual = (mode.shadow, mode.candidate, mode.reservation, mode.careful)
    found: list[Setting] = [(*usual, True), (*usual, False)]
    found += [(*pair, mode.reservation, mode.careful, patient) for pair in PAIRS for patient in (True, False)]
    found += [(mode.shadow, mode.candidate, reservation, mode.careful, True) for reservation in RESERVATIONS]
    found += [(mode.shadow, mode.candidate, mode.reservation, careful, True) for careful in CAREFUL]
    return list(dict.fromkeys(found))


def play_uses(task: Task) -> Played:
    name, (shadow, candidate, reservation, careful, patience_ends) = task
    log, mode = read_log(name), load_mode(mode_name())
    policies = mode.policies()
    if not patience_ends:
        policies = replace(policies, plan=replace(policies.plan, patience_s=inf))
    predicting = PredictorFeed(mode.predictor, QuantileLevels(shadow, candidate, reservation, careful))
    return play(log.cluster, log.jobs, policies, predicting)


def claims(task: Task, one: Played, easy: Played) -> list[dict]:
    """Told, not judged. The baseline is EASY with users' estimates."""
    log, setting = task
    words = " ".join(f"{name} {value:g}" if value is not True else name for name, value in _named(setting).items())
    label = f"{log} {words}"
    rows = (
        ("mean slowdown", one.mean_slowdown, "", easy.mean_slowdown),
        ("longest wait", one.max_wait_h, "h", easy.max_wait_h),
        ("first in line later than promised, mean", mean(one.late_h), "h", mean(easy.late_h)),
        ("first in line later than promised, p99", p99(one.late_h), "h", p99(easy.late_h)),
        ("first in line later than had nobody slipped in, mean", mean(one.passed_h), "h", mean(easy.passed_h)),
        ("first in line later than had nobody slipped in, p99", p99(one.passed_h), "h", p99(easy.passed_h)),
    )
    return [claim(f"{label}: {what}", value, unit, "lower", baseline=base) for what, value, unit, base in rows]


def _named(setting: Setting) -> dict[str, float | bool]:
    shadow, candidate, reservation, careful, patience_ends = setting
    patience: dict[str, float | bool] = {"patience ends" if patience_ends else "endless patience": True}
    return {"shadow": shadow, "candidate": candidate, "reservation": reservation, "careful": careful, **patience}


def _panel(log: str, played: dict[Task, Played], easy: Played) -> dict:
    """Slowdown over the delay of the head of the queue; lower left is better."""
    lines: dict[str, list[tuple[float, float]]] = {"EASY, users' estimates": [_point(easy)]}
    for (name, setting), one in played.items():
        if name == log:
            lines.setdefault("patience ends" if setting[-1] else "endless patience", []).append(_point(one))
    return {"title": log, "x": "first in line later than had nobody slipped in, mean h", "y": "mean slowdown",
            "lines": {line: sorted(points) for line, points in lines.items()}}  # fmt: skip


def _point(one: Played) -> tuple[float, float]:
    return mean(one.passed_h), one.mean_slowdown
