"""Four clients with different SLOs at once, and a load that changes: ``python -m bench.card slos``.

Two services with a latency target, a training job with a throughput target, and one without a target. In the middle
third the first service has twice its load, in the last third the second one. All conditions have the same arrivals. In
one more condition gpusquad's policy is switched from ``jct`` to ``slo`` and back while all clients run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.card import ways
from bench.card.arrivals import Load, arrivals
from bench.card.clock import Deadline
from bench.card.options import Asked
from bench.card.place import Lost
from bench.card.rows import Row, RowFile
from bench.card.solo import CURVE_S, curves, facts_of, saturated_per_s, work_us
from bench.card.stage import Stage, Tenant
from bench.card.ways import Seat, at_percent

BENCH = "slos"
IMAGE, TEXT, STEADY, SPARE = "image", "text", "steady", "spare"
NAMES = (IMAGE, TEXT, STEADY, SPARE)
OURS_POLICY = "slo"
OURS, ISOLATED, SWITCHED = "gpusquad", "gpusquad isolated", "gpusquad, jct to slo and back"
TARGET_RATIO = 1.4
"""A service's target over its 99th percentile alone at its higher load."""
THROUGHPUT_PART = 0.35
"""The target of the steady training job, of its speed alone."""
LENGTH_S, LEAD_IN_S, PATIENCE_S, GRACE_S = 24.0, 0.5, 3.0, 20.0
WORKLOADS = {IMAGE: "resnet50-graph", TEXT: "encoder-graph", STEADY: "googlenet", SPARE: "transformer-training"}
"""Services that are bound by the card. The tail of a service that is bound by its host depends more on the host than on
its neighbours, and would decide whether its target is met."""
BATCHES = {IMAGE: 32, TEXT: 64, STEADY: 64, SPARE: 8}
"""Training batches are smaller than usual: each way of sharing has a process of its own, and all of them are on the
card at once."""
LOADS = {IMAGE: 35.0, TEXT: 55.0}
"""By GPU time alone both services fill a fifth to three tenths of the time, so all SLOs can be met."""
_FIXED_SPLITS = ((4, 3, 5, 3), (3, 3, 6, 3), (2, 2, 7, 4))
_PERCENTAGES = ((100, 100, 60, 30), (100, 100, 40, 20), (25, 25, 35, 15))
_START_S = 90.0
_THIRDS = {IMAGE: (1.0, 2.0, 1.0), TEXT: (1.0, 1.0, 2.0)}


@dataclass(frozen=True)
class Options(Asked):
    @property
    def run_s(self) -> float:
        return self.length_s or LENGTH_S

    @property
    def setup(self) -> str:
        what = "tiny" if self.tiny else ", ".join(WORKLOADS.values())
        return f"{what}, {self.run_s:g} s, targets {TARGET_RATIO:g} of p99 alone"


def conditions() -> dict[str, tuple[str, ...]]:
    """Way of each of the four clients. Static conditions are tried in several sizes, and the best one counts."""
    found = {"time slicing": (ways.PLAIN,) * 4, "MPS": (ways.MPS,) * 4}
    for parts in _PERCENTAGES:
        named = tuple(ways.MPS if part == 100 else at_percent(part) for part in parts)
        found[f"MPS {'/'.join(map(str, parts))} %"] = named
    found["MPS priority"] = (ways.MPS, ways.MPS, ways.LOW, ways.LOW)
    for parts in _FIXED_SPLITS:
        found[f"green {'/'.join(map(str, parts))}"] = (ways.FIXED,) * 4
    ours = (ways.SQUADS, ways.SQUADS, ways.SQUADS_LOW, ways.SQUADS_LOW)
    return {**found, OURS: ours, ISOLATED: (ways.ALONE,) * 4, SWITCHED: ours}


def masks_of(condition: str) -> dict[str, int]:
    """Disjoint groups, in the order of the tenants, for a condition that is called by their numbers."""
    found, first = {}, 0
    for name, groups in zip(NAMES, map(int, condition.removeprefix("green ").split("/")), strict=True):
        found[name] = ((1 << groups) - 1) << first
        first += groups
    return found


def changing(name: str, per_s: float, length_s: float, seed: str) -> list[float]:
    """Arrivals whose rate changes by thirds."""
    third_s = length_s / 3
    return [
        index * third_s + at_s
        for index, factor in enumerate(_THIRDS[name])
        for at_s in arrivals(Load(per_s * factor), third_s, f"{seed} {name} {index}")
    ]


def run(file: RowFile, sitting: Row, options: Options, deadline: Deadline) -> None:
    known = conditions()
    wanted = {name: known[name] for name in options.among(known)}
    if not deadline.has(min(_START_S, 3 * options.run_s)) or next_run(file, options, wanted) is None:
        _log(f"nothing is begun: {deadline.left_s:.0f} s are left, or all was measured")
        return
    workloads = {IMAGE: "tiny-service", TEXT: "tiny-service", STEADY: "tiny-training", SPARE: "tiny-training"}
    if options.tiny:
        tenants = [Tenant(name, workloads[name]) for name in NAMES]
    else:
        tenants = [Tenant(name, WORKLOADS[name], BATCHES[name]) for name in NAMES]
    with Stage(options.place, tenants, OURS_POLICY) as stage:
        seats = [Seat(name, way) for how in wanted.values() for name, way in zip(NAMES, how, strict=True)]
        plain = [Seat(name, way) for name in NAMES for way in (ways.PLAIN, ways.FIXED)]
        for seat, why in stage.ready([*plain, *seats]).items():
            _log(f"  {seat}: {why}")
        known = _calibrated(stage, file, sitting, options)
        _tell_facts(stage, known, wanted)
        while (following := next_run(file, options, wanted)) and deadline.has(LEAD_IN_S + options.run_s + 2.0):
            name, repeat = following
            row = _measured(stage, options, known, name, wanted[name], repeat)
            head = {"bench": BENCH, "kind": "run", "sitting": sitting["sitting"], "setup": options.setup}
            file.add({**head, "condition": name, "repeat": repeat, "at_s": round(time.time(), 2), **row})
            _log(f"  {name}: {row.get('failed') or 'done'}; {deadline.left_s:.0f} s left")


def next_run(file: RowFile, options: Options, wanted: Mapping[str, object]) -> tuple[str, int] | None:
    """The condition with the fewest runs, and their number. None: all have enough. Failed runs count as attempts."""
    done = [row["condition"] for row in file.of(BENCH, "run") if row["setup"] == options.setup]
    count = {name: done.count(name) for name in wanted}
    fewest = min(wanted, key=lambda name: count[name], default=None)
    return None if fewest is None or count[fewest] >= options.repeats else (fewest, count[fewest])


def _calibrated(stage: Stage, file: RowFile, sitting: Row, options: Options) -> Row:
    kept = [row for row in file.of(BENCH, "calibration") if row["setup"] == options.setup]
    if kept:
        return kept[-1]
    length_s = min(6.0, options.run_s)
    targets: dict[str, Any] = {}
    for name in (IMAGE, TEXT):
        coming = arrivals(Load(2 * LOADS[name]), length_s, f"alone {name}")
        request = {"offsets_s": coming, "give_up_s": length_s + PATIENCE_S}
        seat = Seat(name, ways.PLAIN)
        late_us = stage.together({seat: ("serve", request)}, length_s + GRACE_S)[seat]["late_us"]
        targets[name] = {"target_us": round(TARGET_RATIO * float(np.percentile(late_us, 99)))}
        targets[name]["work_us"] = work_us(stage, seat)
    for name in (STEADY, SPARE):
        alone = saturated_per_s(stage, Seat(name, ways.PLAIN), min(3.0, length_s))
        targets[name] = {"alone_per_s": alone}
    targets[STEADY]["target_per_s"] = THROUGHPUT_PART * targets[STEADY]["alone_per_s"]
    row = {"bench": BENCH, "kind": "calibration", "sitting": sitting["sitting"], "setup": options.setup,
           "tenants": targets, "curves": curves(stage, NAMES, min(CURVE_S, length_s / 4))}  # fmt: skip
    file.add(row)
    return row


def _tell_facts(stage: Stage, known: Row, wanted: Mapping[str, object]) -> None:
    tenants, known_curves = known["tenants"], known["curves"]
    goals: dict[str, dict[str, Any]] = {
        name: {"slo": {"latency_us": tenants[name]["target_us"]}, "work_us": tenants[name]["work_us"], "priority": 1}
        for name in (IMAGE, TEXT)
    }
    goals[STEADY] = {"slo": {"throughput_per_s": tenants[STEADY]["target_per_s"]}}
    for way in {conditions()[name][0] for name in (OURS, ISOLATED, SWITCHED) if name in wanted}:
        for name in NAMES:
            stage.change(name, way, **goals.get(name, {}), **facts_of(known_curves.get(name)))


def _measured(
    stage: Stage, options: Options, known: Row, condition: str, how: Sequence[str], repeat: int
) -> dict[str, Any]:
    length_s = options.run_s
    asked: dict[Seat, tuple[str, dict[str, Any]]] = {}
    coming = {name: changing(name, LOADS[name], length_s, f"slos {repeat}") for name in (IMAGE, TEXT)}
    for name, way in zip(NAMES, how, strict=True):
        if name in coming:
            offsets = [LEAD_IN_S + at_s for at_s in coming[name]]
            report = stage.report_to(name, way) if ways.needs_daemon(way) else None
            give_up_s = LEAD_IN_S + length_s + PATIENCE_S
            asked[Seat(name, way)] = ("serve", {"offsets_s": offsets, "give_up_s": give_up_s, "report": report})
        else:
            asked[Seat(name, way)] = ("iterate", {"length_s": LEAD_IN_S + length_s, "instants": True})
    try:
        if how[0] == ways.FIXED:
            stage.masks(masks_of(condition))
        if ways.needs_daemon(how[0]):
            stage.ask({"do": "policy", "policy": "jct" if condition == SWITCHED else OURS_POLICY}, how[0])
        switch = _switching(stage, length_s) if condition == SWITCHED else (lambda start_s: None)
        answers = stage.together(asked, length_s + PATIENCE_S + GRACE_S, switch)
    except (Lost, OSError) as lost:
        return {"failed": str(lost)}
    by_name = {seat.tenant: answer for seat, answer in answers.items()}
    late = {name: [[round(1000 * at_s), us] for at_s, us in zip(coming[name], by_name[name]["late_us"], strict=True)]
            for name in coming}  # fmt: skip
    done = {name: [us - round(LEAD_IN_S * 1e6) for us in by_name[name]["done_us"]] for name in (STEADY, SPARE)}
    return {"length_s": length_s, "late": late, "done_us": done}


def _switching(stage: Stage, length_s: float) -> Any:
    """At a third ``slo``, at two thirds ``jct`` again."""

    def switch(start_s: float) -> None:
        for part, policy in ((1, OURS_POLICY), (2, "jct")):
            at_s = start_s + LEAD_IN_S + part * length_s / 3
            time.sleep(max(0.0, at_s - time.monotonic()))
            stage.ask({"do": "policy", "policy": policy})

    return switch


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
