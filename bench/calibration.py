"""Calibration, sharpness and cost of predictions. Of a hundred runs, N must end by their predicted Nth percentile.

Three logs are predicted job by job, with the runs that had ended by then. Coverage is measured overall and in windows
of 1,000 consecutive jobs, compared with perfect quantiles under random variation. Sharpness is the pinball loss (the
usual score of a quantile) in seconds, compared with that of the last two runs (``recent``). Cost is one prediction
after 100,000 runs: in wall-clock time, which has the bar, and in CPU time, which other work on the machine does not
change. ``GPUSQUAD_PREDICTORS=combined,recent`` selects predictors.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import numpy as np

from bench._cost import RUNS, cost
from bench._log_predictions import PREDICTED_LEVELS, predict_log
from bench._logs import Floats, read_log
from bench._pages import draw, keep
from bench._play import side_by_side, tell
from bench._windows import WINDOW, by_chance, kept
from bench.backfill import PROCESSORS
from bench.claims import claim
from gpusquad import registry

NAME = "calibration"
SUMMARY = "predictions compared with actual run times: coverage of P50, P90 and P99, sharpness, cost"
SLOW = True

OURS, LAST_TWO = "combined", "recent"
TOLERANCE = dict(zip(PREDICTED_LEVELS, (2.0, 2.0, 0.7), strict=True))
"""Points of 100."""


def run() -> list[dict]:
    names = predictors()
    logs = sorted(PROCESSORS, key=lambda name: -PROCESSORS[name])
    predicted = side_by_side(foretell_one, [(log, name) for log in logs for name in names])
    claims = [one for log in PROCESSORS for one in judged(log, {name: predicted[log, name] for name in names})]
    title = f"Part of {WINDOW:,} runs in a row that ended by their quantile, in percent"
    draw(NAME, title, [_panel(log, predicted[log, OURS]) for log in PROCESSORS])
    tell(f"learning {RUNS:,} runs")
    claims += cost(OURS, RUNS)
    keep(NAME, claims)
    return claims


def predictors() -> list[str]:
    """``boosted`` where it is there and can be trained."""
    asked = os.environ.get("GPUSQUAD_PREDICTORS")
    if asked:
        return list(dict.fromkeys((OURS, *asked.split(","), LAST_TWO)))
    boosted = "boosted" in registry.names("predictor") and find_spec("sklearn") is not None
    return [OURS, "history", LAST_TWO, *(["boosted"] if boosted else [])]


def foretell_one(task: tuple[str, str]) -> Floats:
    return predict_log(read_log(task[0]), registry.create("predictor", task[1]))


def judged(log_name: str, predicted: dict[str, Floats]) -> list[dict]:
    """Only gpusquad's predictor has bars; the others are shown for comparison."""
    run_s = read_log(log_name).run_s
    claims = [
        one for name, rows in predicted.items() for one in covered(f"{log_name} {name}", run_s, rows, name == OURS)
    ]
    known = ~np.isnan(np.stack(list(predicted.values()))).any(axis=(0, 2))
    last_two, asked = predicted[LAST_TWO][known, 0], predicted[LAST_TWO][known, 1]
    for column, level in enumerate(PREDICTED_LEVELS[:2]):
        for name in (name for name in predicted if name != LAST_TWO):
            loss_s = pinball(run_s[known], predicted[name][known, column], level)
            label = f"{log_name} {name}: pinball loss at P{level * 100:g} /"
            # ``recent`` predicts one number for all levels, and its high value is the user's estimate.
            claims.append(claim(f"{label} that of the last two runs", loss_s / pinball(run_s[known], last_two, level),
                                "", "lower", bar=1.0 if name == OURS else None, baseline=1.0))  # fmt: skip
            claims.append(claim(f"{label} that of users' estimates", loss_s / pinball(run_s[known], asked, level),
                                "", "lower", baseline=1.0))  # fmt: skip
    return claims


def covered(label: str, run_s: Floats, rows: Floats, has_bars: bool) -> list[dict]:
    """Deviation of the fraction of runs that ended in time from the level, overall and in windows."""
    known = ~np.isnan(rows[:, 0])
    claims = []
    for column, level in enumerate(PREDICTED_LEVELS):
        hit, tolerance, point = (
            run_s[known] <= rows[known, column],
            TOLERANCE[level],
            f"P{level * 100:g}",
        )
        off = 100 * float(hit.mean()) - 100 * level
        claims.append(claim(f"{label}: {point} covers {100 * hit.mean():.2f} %, off by", abs(off), "points", "lower",
                            bar=tolerance if has_bars else None))  # fmt: skip
        on_the_way, chance = kept(hit, level, tolerance), by_chance(len(hit), level, tolerance)
        windows = f"{label}: {point} over {WINDOW:,} jobs"
        claims += [
            claim(f"{windows}, off by (mean; beside chance)", on_the_way.mean_off, "points", "lower",
                  baseline=chance.mean_off),
            claim(f"{windows}, off by at most", on_the_way.worst_off, "points", "lower", baseline=chance.worst_off),
            claim(f"{windows}, within {tolerance:g} points", on_the_way.within, "%", "higher", baseline=chance.within),
        ]  # fmt: skip
    return claims


def pinball(truth: Floats, said: Floats, level: float) -> float:
    """Mean, in the unit of the values."""
    above = truth - said
    return float(np.maximum(level * above, (level - 1) * above).mean())


def _panel(log_name: str, rows: Floats) -> dict:
    run_s = read_log(log_name).run_s
    window = min(WINDOW, len(run_s))
    lines = {}
    for column, level in enumerate(PREDICTED_LEVELS):
        sums = np.concatenate(([0.0], np.cumsum(run_s <= rows[:, column])))
        part = 100 * (sums[window:] - sums[:-window]) / window
        lines[f"P{level * 100:g}"] = [
            (int(at), float(part[at])) for at in range(0, len(part), max(1, len(part) // 400))
        ]
    return {"title": log_name, "x": "job", "y": "ended by it, %", "lines": lines}
