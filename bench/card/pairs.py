"""A service beside a training job, under every way of sharing a card: ``python -m bench.card pairs``.

Conditions alternate in short blocks, all with the same arrivals. Each block is written to the file when it ends. Called
again with the same file, the bench continues where most is missing, until every condition of a pair has 10,000 requests
and three repeats.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.card import pair_plan as plan
from bench.card.clock import Deadline
from bench.card.pair_blocks import Timing, run_block
from bench.card.pair_calibration import calibrate, calibration, split_masks
from bench.card.pair_plan import LATENCY, TRAINING, Pair
from bench.card.place import Lost, Place
from bench.card.rows import Row, RowFile
from bench.card.solo import facts_of
from bench.card.stage import Stage, Tenant
from bench.card.ways import FIXED, MPS, PLAIN, Seat, at_percent

START_S = 45.0
_BLOCK_MORE_S = 1.0


@dataclass(frozen=True)
class Options:
    """How a call goes about it."""

    place: Place
    pairs: Sequence[Pair] = plan.PAIRS
    conditions: Sequence[str] = plan.CONDITIONS
    timing: Timing = field(default_factory=Timing)
    percentages: Sequence[int] = plan.PERCENTAGES
    stay_minutes: float = 4.0
    """Time after which the next pair is measured, without the start of the processes."""
    start_s: float = START_S
    """Time that must be left to start a pair; twice as much if it must be calibrated."""


def run(file: RowFile, sitting: Row, options: Options, deadline: Deadline) -> None:
    """Measure until the time is up or all is complete. A pair that fails is reported, and the next one is measured."""
    visited: set[str] = set()
    broken: set[str] = set()
    while True:
        good = [pair for pair in options.pairs if pair.name not in broken]
        waiting = plan.emptiest_first(file.rows, good, options.timing.length_s, options.conditions)
        fresh = [pair for pair in waiting if pair.name not in visited] or waiting
        if not fresh:
            _log("nothing is left to measure")
            return
        pair = fresh[0]
        known = calibration(file.rows, pair, pair.setup(options.timing.length_s)) is not None
        if not deadline.has(max(_BLOCK_MORE_S, options.start_s * (1 if known else 2))):
            _log(f"{pair.name} is next; {deadline.left_s:.0f} s are too few to begin with it")
            return
        visited.add(pair.name)
        try:
            _visit(file, sitting, pair, options, deadline, is_last=len(waiting) == 1)
        except Lost as lost:
            _log(f"{pair.name}: {lost}")
            file.add({**_head(sitting, pair, options), "kind": "failure", "failed": str(lost)})
            broken.add(pair.name)


def _visit(file: RowFile, sitting: Row, pair: Pair, options: Options, deadline: Deadline, *, is_last: bool) -> None:
    """``is_last``: no other pair waits for its turn."""
    setup = pair.setup(options.timing.length_s)
    tenants = [
        Tenant(LATENCY, pair.service, pair.batch, {"priority": 1}),
        Tenant(TRAINING, pair.training, pair.training_batch),
    ]
    _log(f"{pair.name}: starting, {deadline.left_s:.0f} s left")
    with Stage(options.place, tenants) as stage:
        known = _calibrated(stage, file, sitting, pair, options, deadline)
        seats = [seat for name in options.conditions for seat in plan.seats_of(name, known["percent"])]
        for seat, why in stage.ready(seats).items():
            _log(f"  {seat}: {why}")
        _tell_facts(stage, pair, known, options.conditions)
        leave_s = deadline.left_s - 60 * options.stay_minutes
        while not plan.is_full(file.rows, pair, setup, options.conditions):
            others = not is_last and deadline.has(2 * options.start_s)
            if others and deadline.left_s <= leave_s:
                return
            if not _round(stage, file, sitting, pair, known, options, deadline):
                return


def _calibrated(
    stage: Stage, file: RowFile, sitting: Row, pair: Pair, options: Options, deadline: Deadline
) -> dict[str, Any]:
    """From the file, or now."""
    found = calibration(file.rows, pair, pair.setup(options.timing.length_s))
    if found is not None:
        return found
    first = [Seat(LATENCY, PLAIN), Seat(LATENCY, MPS), Seat(LATENCY, FIXED), Seat(TRAINING, FIXED)]
    percent = [Seat(TRAINING, at_percent(one)) for one in options.percentages]
    later = [seat for name in options.conditions for seat in plan.seats_of(name, options.percentages[0])]
    # All processes start at once, since that takes the longest; the models of the later ones need memory, and wait.
    lost = stage.ready([*first, *percent, *later], build=False)
    began_s = time.monotonic()
    lost |= stage.build([seat for seat in (*first, *percent) if seat not in lost])
    for seat, why in lost.items():
        _log(f"  {seat}: {why}")
    found = calibrate(stage, pair, options.timing, options.percentages)
    row = {**_head(sitting, pair, options), "kind": "calibration", **found}
    file.add(row)
    best = f"{found['percent']} % and {found['split']} groups"
    _log(f"  calibrated in {time.monotonic() - began_s:.0f} s: {best}, {deadline.left_s:.0f} s left")
    return row


def _tell_facts(stage: Stage, pair: Pair, known: Row, conditions: Sequence[str]) -> None:
    """Settings for the whole call: the static split, and what the daemons know of both clients."""
    if plan.STATIC in conditions:
        stage.masks(split_masks(stage.place.groups, int(known["split"])))
    facts = {tenant: facts_of(known["curves"].get(tenant)) for tenant in (LATENCY, TRAINING)}
    facts[LATENCY] |= {"slo": {"latency_us": known["target_us"]}, "work_us": known["work_us"]}
    for condition in plan.DAEMON_WAYS:
        if condition not in conditions:
            continue
        try:
            for seat in plan.seats_of(condition, int(known["percent"])):
                stage.change(seat.tenant, seat.way, **facts[seat.tenant])
        except (Lost, OSError) as error:
            _log(f"  the daemon of {condition} was not told: {error}")


def _round(
    stage: Stage, file: RowFile, sitting: Row, pair: Pair, known: Row, options: Options, deadline: Deadline
) -> bool:
    """Every condition once. False: no time is left."""
    setup = pair.setup(options.timing.length_s)
    repeat = plan.next_repeat(file.rows, pair, setup)
    conditions = plan.hopeful(file.rows, pair, setup, options.conditions)
    if not conditions:
        raise Lost("no condition can be measured")
    told = []
    for condition in plan.round_order(file.rows, pair, setup, conditions, repeat):
        if not deadline.has(options.timing.all_s + _BLOCK_MORE_S):
            return False
        head = {**_head(sitting, pair, options), "kind": "block", "condition": condition, "repeat": repeat}
        head["at_s"] = round(time.time(), 2)
        try:
            timing = options.timing
            if condition == plan.TRAINING_ALONE:
                timing = replace(timing, length_s=min(2.0, timing.length_s))
            row = run_block(stage, pair, condition, int(known["percent"]), f"{pair.name} {repeat}", timing)
            if condition in plan.DAEMON_WAYS:
                row["daemon"] = brief(stage.ask({"do": "status"}, plan.DAEMON_WAYS[condition]))
        except (Lost, OSError) as lost:
            row = {"failed": str(lost), "late_us": []}
        file.add({**head, "percent": known["percent"], "split": known["split"], **row})
        told.append(f"{condition} {'failed' if 'failed' in row else len(row['late_us'])}")
    _log(f"  round {repeat}: {', '.join(told)}; {deadline.left_s:.0f} s left")
    return True


def brief(status: Row) -> Row:
    """The part of the daemon's status that explains the result of a block."""
    kept = ("id", "groups", "gated", "attainment", "attained_us", "waited_us", "moves", "kernel_us")
    tenants = [{name: one.get(name) for name in kept} for one in status.get("tenants", [])]
    return {**{name: status.get(name) for name in ("policy", "failure", "squads", "why")}, "tenants": tenants}


def _head(sitting: Row, pair: Pair, options: Options) -> Row:
    return {"bench": plan.BENCH, "sitting": sitting["sitting"], "pair": pair.name,
            "setup": pair.setup(options.timing.length_s), "per_s": pair.load.per_s}  # fmt: skip


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
