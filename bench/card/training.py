"""Two training jobs on one card until both have ended: ``python -m bench.card training``.

The first is half as long as the second, so that half of the card's work is done by a job that has it alone. Measured:
the end of each job, the speed of both together, how soon the second uses what the first released, and the fraction of
SM time in which nothing ran while both had work queued.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.card import ways
from bench.card.clock import Deadline
from bench.card.options import Asked
from bench.card.place import Lost
from bench.card.rows import Row, RowFile
from bench.card.solo import CURVE_S, curves, facts_of, saturated_per_s, together_per_s
from bench.card.stage import Stage, Tenant
from bench.card.steward import Watcher
from bench.card.ways import Seat, at_percent

BENCH = "training"
FIRST, SECOND = "first", "second"
OURS, OURS_TOGETHER = "gpusquad jct", "gpusquad hybrid"
POLICIES = {OURS: "jct", OURS_TOGETHER: "hybrid"}
"""The same processes and the same daemon, whose policy is changed between runs: one optimises JCT, the other
throughput."""
SHORT_S, LONG_S = 4.0, 8.0
"""How long both take alone."""
LEAD_IN_S = 0.3
MAX_INSTANTS = 4000
"""Maximum number of steps in a row. Of a job with more, every nth is kept."""
_START_S = 60.0
_GRACE_S = 30.0


@dataclass(frozen=True, slots=True)
class Couple:
    first: str
    second: str
    second_batch: int | None = None

    @property
    def name(self) -> str:
        return f"{self.first} + {self.second}" + (f" ({self.second_batch})" if self.second_batch else "")


COUPLES = (
    Couple("googlenet", "vgg16"),
    Couple("vgg16", "matmul", second_batch=1),  # steps of 0.2 ms: the finest resolution of the time after an end
    Couple("transformer-training", "resnet50-training"),
    Couple("alexnet", "transformer-training"),
)
TINY_COUPLES = (Couple("tiny-training", "tiny-training"),)
CONDITIONS = {
    "time slicing": (ways.PLAIN, ways.PLAIN),
    "MPS": (ways.MPS, ways.MPS),
    "MPS 50/50 %": (at_percent(50), at_percent(50)),
    "MPS priority": (ways.MPS, ways.LOW),
    "green 8/7": (ways.FIXED, ways.FIXED),
    **dict.fromkeys(POLICIES, (ways.SQUADS_LOW, ways.SQUADS_LOW)),  # as for jobs without an SLO
}


@dataclass(frozen=True)
class Options(Asked):
    conditions: Sequence[str] = ()
    """Empty: all."""

    @property
    def hows(self) -> dict[str, tuple[str, str]]:
        """The ways of both, by condition."""
        return {name: how for name, how in CONDITIONS.items() if not self.conditions or name in self.conditions}

    @property
    def long_s(self) -> float:
        return self.length_s or LONG_S

    @property
    def couples(self) -> list[Couple]:
        known = {one.name: one for one in (TINY_COUPLES if self.tiny else COUPLES)}
        return [known[name] for name in self.among(known)]

    def setup(self, couple: Couple) -> str:
        return f"{couple.name}, {self.long_s:g} s"


def run(file: RowFile, sitting: Row, options: Options, deadline: Deadline) -> None:
    """Couples with the fewest runs first."""
    with Watcher(options.place) as watcher:
        for couple in sorted(options.couples, key=lambda one: len(_runs(file, options.setup(one)))):
            if _is_full(file, couple, options):
                continue
            if not deadline.has(min(_START_S, 4 * options.long_s)):
                return
            _log(f"{couple.name}: starting, {deadline.left_s:.0f} s left")
            try:
                _visit(file, sitting, couple, options, deadline, watcher)
            except Lost as lost:
                _log(f"  {lost}")
                file.add({**_head(sitting, options.setup(couple)), "kind": "failure", "failed": str(lost)})


def _is_full(file: RowFile, couple: Couple, options: Options) -> bool:
    done = Counter(row["condition"] for row in _runs(file, options.setup(couple)))
    return all(done[condition] >= options.repeats for condition in options.hows)


def _visit(file: RowFile, sitting: Row, couple: Couple, options: Options, deadline: Deadline, watcher: Watcher) -> None:
    setup = options.setup(couple)
    tenants = [Tenant(FIRST, couple.first), Tenant(SECOND, couple.second, couple.second_batch)]
    with Stage(options.place, tenants, POLICIES[OURS]) as stage:
        hows = options.hows
        seats = [Seat(name, way) for how in hows.values() for name, way in zip((FIRST, SECOND), how, strict=True)]
        for seat, why in stage.ready(seats).items():
            _log(f"  {seat}: {why}")
        known = _alone(stage, file, sitting, setup, options)
        for repeat in range(options.repeats):
            for condition, how in hows.items():
                done = [row for row in _runs(file, setup) if row["condition"] == condition]
                if len(done) > repeat:
                    continue
                if not deadline.has(3 * options.long_s + 2.0):
                    return
                row = _measured(stage, known, condition, how, options, watcher)
                head = {**_head(sitting, setup), "kind": "run", "condition": condition, "repeat": repeat}
                file.add({**head, "at_s": round(time.time(), 2), **row})
                _log(f"  {condition}: {row.get('failed') or 'done'}; {deadline.left_s:.0f} s left")


def _alone(stage: Stage, file: RowFile, sitting: Row, setup: str, options: Options) -> Row:
    """Speeds, and how often each step is marked done: from the same length of time as is compared with."""
    kept = [row for row in file.of(BENCH, "alone") if row["setup"] == setup and "beside" in row]
    if kept:
        return kept[-1]
    length_s = min(3.0, options.long_s / 2)
    alone = {name: saturated_per_s(stage, Seat(name, ways.PLAIN), length_s) for name in (FIRST, SECOND)}
    row = {**_head(sitting, setup), "kind": "alone", "per_s": alone, "beside": _beside(stage, alone, length_s),
           "curves": curves(stage, (FIRST, SECOND), min(CURVE_S, length_s / 2))}  # fmt: skip
    file.add(row)
    return row


def _beside(stage: Stage, alone: Mapping[str, float], length_s: float) -> dict[str, float]:
    """Rate of each job beside the other under MPS, as known from earlier measurements of the pair. Empty if it could
    not be measured."""
    try:
        found = together_per_s(stage, [Seat(name, ways.MPS) for name in alone], length_s)
    except Lost:
        return {}
    return {seat.tenant: min(1.0, per_s / alone[seat.tenant]) for seat, per_s in found.items()}


def _measured(
    stage: Stage, known: Row, condition: str, how: tuple[str, str], options: Options, watcher: Watcher
) -> dict[str, Any]:
    longs = {FIRST: options.long_s * SHORT_S / LONG_S, SECOND: options.long_s}
    counts = {name: max(2, round(known["per_s"][name] * longs[name])) for name in longs}
    try:
        if condition in POLICIES:
            stage.ask({"do": "policy", "policy": POLICIES[condition]})
            for name, other in ((FIRST, SECOND), (SECOND, FIRST)):
                beside = {other: known["beside"][name]} if name in known["beside"] else {}
                facts = {**facts_of(known["curves"].get(name)), "app": name, "beside": beside}
                stage.change(name, remaining_us=round(longs[name] * 1e6), **facts)
        if how[0] == ways.FIXED:
            low = (1 << 8) - 1
            stage.masks({FIRST: low, SECOND: ((1 << stage.place.groups) - 1) & ~low})
        asked = {
            Seat(name, way): ("iterate", {"length_s": 10 * options.long_s, "count": counts[name], "instants": True})
            for name, way in zip((FIRST, SECOND), how, strict=True)
        }
        seen: dict[str, Any] = {}

        def watch(start_s: float) -> None:
            seen.update(watcher.watch(start_s + LEAD_IN_S, start_s + LEAD_IN_S + longs[FIRST] / 2))

        answers = stage.together(asked, 10 * options.long_s + _GRACE_S, watch)
    except (Lost, OSError) as lost:
        return {"failed": str(lost)}
    every = {name: -(-count // MAX_INSTANTS) for name, count in counts.items()}
    done_us = {seat.tenant: thinned(answer["done_us"], every[seat.tenant]) for seat, answer in answers.items()}
    return {"counts": counts, "done_us": done_us, "every": every, "counters": seen}


def thinned(instants: Sequence[int], every: int) -> list[int]:
    """Every nth value, and always the last one."""
    return list(instants[::-1][::every][::-1])


def _runs(file: RowFile, setup: str) -> list[Row]:
    """Failed runs count as attempts, so that they are not repeated indefinitely."""
    return [row for row in file.of(BENCH, "run") if row["setup"] == setup]


def _head(sitting: Row, setup: str) -> Row:
    return {"bench": BENCH, "sitting": sitting["sitting"], "setup": setup}


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
