"""Calibration of a pair before its conditions are compared, stored in the file. It is needed for each pair, so it is
limited to half a minute, with short blocks for percentages and splits.

It finds the best percentage for MPS and the best split for static green contexts, so that both baselines are at their
best; the latency target of the service; and the rates of both clients over their share of the SMs, which gpusquad's
policy knows of jobs that ran before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bench.card import pair_plan as plan
from bench.card.pair_blocks import Timing, run_block, run_seats
from bench.card.pair_plan import LATENCY, TRAINING, Pair
from bench.card.place import Lost
from bench.card.rows import Row
from bench.card.solo import CURVE_S, curves, work_us
from bench.card.stage import Stage
from bench.card.ways import MPS, PLAIN, Seat, at_percent

TARGET_RATIO = 1.05
"""The service's target over its solo P99: the long-term aim."""
WITHIN_RATIO = 1.10
"""Percentages and splits that keep the service within this ratio are compared by the training speed."""
ALONE_S, TRIED_S = 3.0, 1.5
"""Lengths of blocks: of the service alone, which its target comes from, and of each percentage and split."""
_LEAD_IN_S, _TAIL_S = 0.2, 0.1


def calibration(rows: Sequence[Row], pair: Pair, setup: str) -> Row | None:
    """The last calibration of this pair and setup."""
    found = [row for row in rows if row.get("bench") == plan.BENCH and row.get("kind") == "calibration"
             and row.get("pair") == pair.name and row.get("setup") == setup]  # fmt: skip
    return found[-1] if found else None


def calibrate(stage: Stage, pair: Pair, timing: Timing, percentages: Sequence[int]) -> dict[str, Any]:
    """Raises Lost if the service alone could not be measured. Other failures are left out."""
    # The P99 of one short block is too noisy for a target, so it is that of several blocks with different arrivals.
    alone_for, tried_for = (_shortened(timing, length_s) for length_s in (ALONE_S, TRIED_S))
    seeds = [f"{pair.name} calibration {index}" for index in range(3)]
    blocks = [run_block(stage, pair, plan.ALONE, 0, seed, alone_for)["late_us"] for seed in seeds]
    alone = [late_us for block in blocks for late_us in block]
    p99_us = float(np.percentile(alone, 99))
    # Candidates are compared with the same arrivals, because arrivals change short blocks more than the candidates do.
    seed = f"{pair.name} tried"
    base_p99_us = float(np.percentile(run_block(stage, pair, plan.ALONE, 0, seed, tried_for)["late_us"], 99))
    percents = _percents(stage, pair, seed, tried_for, percentages)
    splits = _splits(stage, pair, seed, tried_for)
    best_percent = best(percents, base_p99_us) or max(percentages)
    stage.let_go([Seat(TRAINING, at_percent(one)) for one in percentages if one != best_percent])
    return {
        "alone_p99_us": p99_us, "target_us": round(TARGET_RATIO * p99_us), "alone_requests": len(alone),
        "work_us": work_us(stage, Seat(LATENCY, PLAIN)), "mps_work_us": _under_mps_us(stage),
        "percents": percents, "percent": best_percent,
        "splits": splits, "split": best(splits, base_p99_us) or plan.SPLITS[0],
        "curves": curves(stage, (LATENCY, TRAINING), min(CURVE_S, timing.length_s)),
    }  # fmt: skip


def _under_mps_us(stage: Stage) -> float | None:
    """GPU time of a request under MPS without neighbours."""
    try:
        return work_us(stage, Seat(LATENCY, MPS))
    except Lost:
        return None


def _shortened(timing: Timing, length_s: float) -> Timing:
    return replace(
        timing, lead_in_s=min(_LEAD_IN_S, timing.lead_in_s), length_s=min(length_s, timing.length_s),
        tail_s=min(_TAIL_S, timing.tail_s),
    )  # fmt: skip


def best(tried: Mapping[int, Mapping[str, float]], alone_p99_us: float) -> int | None:
    """The most training among those that keep the service within bounds; if none does, the least late."""
    if not tried:
        return None
    within = [one for one, seen in tried.items() if seen["p99_us"] <= WITHIN_RATIO * alone_p99_us]
    if within:
        return max(within, key=lambda one: tried[one]["steps_per_s"])
    return min(tried, key=lambda one: tried[one]["p99_us"])


def split_masks(groups: int, for_service: int) -> dict[str, int]:
    """Disjoint: the first groups for the service, all others for the training job."""
    service = (1 << for_service) - 1
    return {LATENCY: service, TRAINING: ((1 << groups) - 1) & ~service}


def _percents(
    stage: Stage, pair: Pair, seed: str, timing: Timing, percentages: Sequence[int]
) -> dict[int, dict[str, float]]:
    found = {}
    stage.ready([Seat(TRAINING, at_percent(percent)) for percent in percentages])
    for percent in percentages:
        try:
            row = run_seats(stage, pair, [Seat(LATENCY, MPS), Seat(TRAINING, at_percent(percent))], seed, timing)
        except Lost:
            continue
        found[percent] = _seen(row)
    return found


def _splits(stage: Stage, pair: Pair, seed: str, timing: Timing) -> dict[int, dict[str, float]]:
    found = {}
    for groups in plan.SPLITS:
        try:
            stage.masks(split_masks(stage.place.groups, groups))
            row = run_block(stage, pair, plan.STATIC, 0, seed, timing)
        except Lost:
            continue
        found[groups] = _seen(row)
    return found


def _seen(row: Mapping[str, Any]) -> dict[str, float]:
    return {"p99_us": float(np.percentile(row["late_us"], 99)), "steps_per_s": row["steps_per_s"]}
